"""Rules in a forward that goes on running: its source is read, and the sums in it are handed to rules."""
