#!/bin/sh
# Slurm Epilog of slurm_io. `slurm-io install` fills in the three values; change them there.
#
# Always exits 0: another exit code drains the node. Python missing, broken, or asleep in the
# kernel on a dead disk: the job ends as it would without us. slurmd waits until nobody holds our stdout,
# so no child gets it.
PYTHON=@PYTHON@
CONFIG=@CONFIG@
LIMIT_S=@LIMIT_S@
PATH=/usr/bin:/bin

# Also when the shell itself gives up: where nothing can be forked it would exit with 2 or 254.
answer=0
trap 'exit $answer' EXIT
# Not stdout: slurmd 22.05.0-3 kills a hook that closes it.
exec 2>/dev/null
trap 'exit 0' HUP INT TERM
trap : USR1

"$PYTHON" -I -m slurm_io.epilog.hook --config "$CONFIG" </dev/null >/dev/null 2>&1 &
hook=$!
(
    trap 'kill $nap; exit 0' TERM
    sleep "$LIMIT_S" & nap=$!
    wait $nap || exit 0
    kill -9 $hook
    kill -USR1 $$
) </dev/null >/dev/null 2>&1 &
watchdog=$!

# Ended by the hook's end, or by the watchdog's USR1 even if the hook cannot be killed (D state).
wait $hook
kill $watchdog
exit 0
