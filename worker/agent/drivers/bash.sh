PS1= PS2=
unset PROMPT_COMMAND MAILCHECK HISTFILE TMOUT
set +H
set +o history
history -c
