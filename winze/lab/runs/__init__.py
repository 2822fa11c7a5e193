"""Runs on the disk: jobs, folders, sweeps, and the readings that results/ keeps."""
