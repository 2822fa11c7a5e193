"""Workers: this process, a process pool, or a Ray cluster."""
