"""The demo's shop: a project of its own under `headwater up`, written to, watched and verified."""
