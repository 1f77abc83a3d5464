"""The processes of a project, each for itself; `project.supervisor` runs them together."""
