#!/bin/sh
# Slurm Prolog of slurm_io. `slurm-io install` fills in the four values; change them there.
#
# Exits 0: another exit code drains the node. Python missing, broken, out of memory, or asleep in
# the kernel on a dead disk: the job starts, unprofiled. Only code 97, which nothing but our own
# decision gives (checks.drain_exit), becomes 1. slurmd waits until nobody holds our stdout, so no
# child gets it.
PYTHON=@PYTHON@
PACKAGES=@PACKAGES@
CONFIG=@CONFIG@
LIMIT_S=@LIMIT_S@
PATH=/usr/bin:/bin
# Without site (-S): start-up files of other packages would cost each job a third of our time.
START='import gc, os, sys
gc.disable()  # not worth its time in a process that lives so shortly
sys.path += [each for each in sys.argv.pop(1).split(":") if each]
from slurm_io.prolog.hook import main
os._exit(main())  # taking the interpreter apart first would cost 6 ms'

# Also when the shell itself gives up: where nothing can be forked it would exit with 2 or 254.
answer=0
trap 'exit $answer' EXIT
# Not stdout: slurmd 22.05.0-3 kills a hook that closes it.
exec 2>/dev/null
trap 'exit 0' HUP INT TERM
trap : USR1

"$PYTHON" -I -S -c "$START" "$PACKAGES" --config "$CONFIG" </dev/null >/dev/null 2>&1 &
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
code=$?
kill $watchdog
[ "$code" = 97 ] && answer=1
exit $answer
