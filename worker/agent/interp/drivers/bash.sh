# Sets up the shell; bash.c explains why. 73 is the report pipe (REPORT_FD). PROMPT_COMMAND comes
# last: it sets the trap that tells the keeper that the shell is ready, and from then on an
# interrupt may discard the line that is being read.
PS1= PS2= __cloister_run=0000000000 __cloister_told=0000000000 __cloister_left= __cloister_status=
__cloister_trap='[[ $__cloister_told == "$__cloister_run" ]] || \builtin kill -INT "$BASHPID"'
__cloister_prompt='{ __cloister_status=${__cloister_left:-$?}
\builtin trap - DEBUG || [[ 1 ]]
\builtin enable . eval set || [[ 1 ]]; } >/dev/null
[[ $BASHPID == "$$" ]] || \builtin kill -9 "$BASHPID"
\builtin trap -- "$__cloister_trap" URG
[[ $__cloister_told == "$__cloister_run" || -z $__cloister_status ]] || {
[[ -z $__cloister_left ]] && (( __cloister_status > 128 )) && __cloister_status=130
\builtin wait "$$" || __cloister_left=
__cloister_report="X0000000${#__cloister_status}${__cloister_status}D0000000a$__cloister_run
"
\builtin echo -n "$__cloister_report" >&73 || \builtin printf %s "$__cloister_report" >&73
__cloister_told=$__cloister_run; }
__cloister_left= __cloister_status='
unset MAILCHECK HISTFILE TMOUT
set +H
set +o history
history -c
PROMPT_COMMAND=$__cloister_prompt
