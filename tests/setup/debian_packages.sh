#!/usr/bin/env bash
# Install the Debian packages that the demo (`fuse`) or the tests (`all`) need, when root on Debian.
# Not root, or not Debian: says what is missing and goes on; the tests then skip with the reason.
set -euo pipefail

fuse=(fuse3:fusermount3 python3-venv:-)
all=("${fuse[@]}" slurmctld:slurmctld slurmd:slurmd slurm-client:scontrol slurmdbd:slurmdbd
     munge:munged mariadb-server:mariadbd sysstat:iostat fio:fio xfsprogs:mkfs.xfs
     prometheus-node-exporter:prometheus-node-exporter procps:ps rsync:rsync)

case "${1:-all}" in
  fuse) wanted=("${fuse[@]}") ;;
  *) wanted=("${all[@]}") ;;
esac

missing=()
for entry in "${wanted[@]}"; do
  package=${entry%%:*} command=${entry##*:}
  if [ "$command" = - ]; then
    python3 -c 'import ensurepip' 2>/dev/null || missing+=("$package")
  elif ! PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null; then
    missing+=("$package")
  fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed: ${missing[*]} (as root: apt-get install ${missing[*]})" >&2
  exit 0
fi
echo "installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# No daemon of the distribution may start: the tests bring up their own, on their own ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy"; chmod 755 "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
