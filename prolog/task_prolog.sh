#!/bin/sh
# Slurm TaskProlog of slurm_io, run as the user before the batch script and before every task.
# `slurm-io install` fills in the value. No Python: 1000 tasks start 1000 of these.
#
# Slurm reads stdout: `export NAME=value` sets the task's environment, `print TEXT` goes to the
# job's output. Without a runtime folder (prolog off, failed, another restart) it does nothing.
RUNTIME_DIR=@RUNTIME_DIR@

folder=$RUNTIME_DIR/$SLURMD_NODENAME/$SLURM_JOB_ID
[ -n "$SLURM_JOB_ID" ] && [ -f "$folder/restart" ] || exit 0
read -r restart <"$folder/restart" || exit 0
[ "$restart" = "${SLURM_RESTART_COUNT:-0}" ] || exit 0

# Told once: by the batch script's prolog, or by task 0 of the first srun of an salloc. A node that
# stops the job says why itself, by the first task on it: the others know nothing of its fault.
# (`command`: a `:` that cannot write would end the shell; a subshell may find no process to be.)
speaks=
[ "${SLURM_PROCID:-0}" = 0 ] && speaks=1
[ "$SLURM_LOCALID" = 0 ] && [ -f "$folder/stop" ] && speaks=1
if [ -n "$speaks" ] && [ -s "$folder/message" ] &&
    { set -C && command : >"$folder/ring/told"; } 2>/dev/null; then
    while IFS= read -r line; do
        printf 'print %s\n' "$line"
    done <"$folder/message"
fi

if [ -f "$folder/stop" ]; then
    read -r code <"$folder/stop"
    exit "${code:-3}"
fi

hook=
[ -s "$folder/hook_path" ] && read -r hook <"$folder/hook_path"
[ -n "$hook" ] || exit 0
newline='
'
case "$PYTHONPATH" in
    *"$newline"*) exit 0 ;; # cannot be handed on line by line
esac
case ":$PYTHONPATH:" in
    *":$hook:"*) ;;
    *) printf 'export PYTHONPATH=%s\n' "$hook${PYTHONPATH:+:$PYTHONPATH}" ;;
esac
printf 'export SLURM_IO_RING_DIR=%s\n' "$folder/ring"
exit 0
