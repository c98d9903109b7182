"""What the kernel's NFS client counts: parsers of /proc/self/mountstats and /proc/net/rpc/nfs."""
