"""The real process on the real disk, ended in every way that a process can end."""
