"""Its conftest keeps one Spark session for all folders below: a package, so that it ends with them."""
