"""What each spare is worth now, and how long it would take until it runs the job."""
