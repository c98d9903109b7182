"""GPUs: what the vendors' drivers say of them, and which of them are a job's."""
