"""User mode: what prolog, task prolog and epilog do, done by one wrapper process."""
