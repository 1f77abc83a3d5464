"""The page of figures: what the results files hold, as tables and plots, and nothing else."""
