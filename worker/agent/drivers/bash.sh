# Setting up the shell; why, is in lang_bash.c. 73 is the report pipe there.
PS1= PS2= __cloister_run=0000000000 __cloister_told=0000000000
PROMPT_COMMAND='__cloister_status=$?
[[ $BASHPID == "$$" ]] || builtin kill -9 "$BASHPID"
[[ $__cloister_told == "$__cloister_run" ]] || {
builtin echo -n "X0000000${#__cloister_status}${__cloister_status}D0000000a$__cloister_run
" >&73
__cloister_told=$__cloister_run; }'
unset MAILCHECK HISTFILE TMOUT
set +H
set +o history
history -c
