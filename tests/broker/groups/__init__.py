"""Tests of the group coordinator, with the room and the desk that they share."""
