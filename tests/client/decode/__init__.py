"""Tests of the columnar decoder."""
