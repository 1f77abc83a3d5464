"""Every column type: the binary log and a snapshot must give the same JSON, and the right one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from headwater.capture.mysql import charsets
from tests.capture.mysql.captured import Setting

# Declaration, SQL value, what stands in the record.
CASES: dict[str, tuple[str, str, Any]] = {
    "tiny": ("TINYINT", "-128", -128),
    "tiny_u": ("TINYINT UNSIGNED", "255", 255),
    "small": ("SMALLINT", "-32768", -32768),
    "small_u": ("SMALLINT UNSIGNED", "65535", 65535),
    "medium": ("MEDIUMINT", "-8388608", -8388608),
    "medium_u": ("MEDIUMINT UNSIGNED", "16777215", 16777215),
    "int_s": ("INT", "-2147483648", -2147483648),
    "int_u": ("INT UNSIGNED", "4294967295", 4294967295),
    "big": ("BIGINT", "-9223372036854775808", -(2**63)),
    "big_u": ("BIGINT UNSIGNED ZEROFILL", "18446744073709551615", 2**64 - 1),
    "zeros": ("INT(8) UNSIGNED ZEROFILL", "42", 42),
    "year_": ("YEAR", "2155", 2155),
    "year_0": ("YEAR", "0", 0),
    "after_year": ("INT UNSIGNED", "4000000000", 4000000000),
    "float_": ("FLOAT", "1.2345678", 1.2345678),
    "float_max": ("FLOAT", "3.4028235e38", 3.4028235e38),
    "float_fixed": ("FLOAT(7,3)", "1234.5678", 1234.568),
    "double_": ("DOUBLE", "1.7976931348623157e308", 1.7976931348623157e308),
    "double_tenth": ("DOUBLE", "0.1", 0.1),
    "decimal_": ("DECIMAL(10,2)", "-12345678.90", "-12345678.90"),
    "decimal_long": (
        "DECIMAL(65,30)",
        "-12345678901234567890123456789012345.123456789012345678901234567890",
        "-12345678901234567890123456789012345.123456789012345678901234567890",
    ),
    "decimal_whole": ("DECIMAL(5,0) ZEROFILL", "42", "42"),
    "decimal_small": ("DECIMAL(18,18)", "-0.000000000000000001", "-0.000000000000000001"),
    "decimal_nine": ("DECIMAL(9,9)", "0.5", "0.500000000"),
    "after_decimal": ("INT UNSIGNED", "4000000000", 4000000000),
    "date_": ("DATE", "'1000-01-01'", -354285),
    "date_zero": ("DATE", "'0000-00-00'", "0000-00-00"),
    "date_part": ("DATE", "'2020-00-10'", "2020-00-10"),
    "date_none": ("DATE", "'2021-02-31'", "2021-02-31"),
    "datetime_": ("DATETIME", "'9999-12-31 23:59:59'", 253402300799000),
    "datetime_3": ("DATETIME(3)", "'2020-02-29 01:02:03.456'", 1582938123456),
    "datetime_5": ("DATETIME(5)", "'2020-02-29 01:02:03.45678'", 1582938123456780),
    "datetime_6": ("DATETIME(6)", "'1969-12-31 23:59:59.999999'", -1),
    "datetime_zero": ("DATETIME(2)", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00.00"),
    "time_": ("TIME", "'-838:59:59'", -3020399000000),
    "time_1": ("TIME(1)", "'-00:00:00.5'", -500000),
    "time_4": ("TIME(4)", "'12:34:56.7891'", 45296789100),
    "time_6": ("TIME(6)", "'-12:34:56.789123'", -45296789123),
    "timestamp_": ("TIMESTAMP NULL", "'2038-01-19 03:14:07'", "2038-01-19T03:14:07Z"),
    "timestamp_2": ("TIMESTAMP(2) NULL", "'1970-01-01 00:00:01.25'", "1970-01-01T00:00:01.25Z"),
    "timestamp_6": (
        "TIMESTAMP(6) NULL",
        "'2020-01-01 00:00:00.000001'",
        "2020-01-01T00:00:00.000001Z",
    ),
    "timestamp_0": ("TIMESTAMP NULL", "'0000-00-00 00:00:00'", "0000-00-00 00:00:00"),
    "bit_1": ("BIT", "1", True),
    "bit_9": ("BIT(9)", "b'100000001'", "AQE="),
    "bit_64": ("BIT(64)", "0x8000000000000001", "AQAAAAAAAIA="),
    "after_bit": ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
    "enum_": (r"ENUM('a','ö','x''y','back\\slash')", r"'back\\slash'", "back\\slash"),
    "enum_latin1": ("ENUM('é','f') CHARACTER SET latin1", "'é'", "é"),
    "enum_refused": ("ENUM('a')", "'zz'", ""),
    "set_": ("SET('q','r'';','ü')", "'q,ü'", "q,ü"),
    "set_nine": ("SET('1','2','3','4','5','6','7','8','9')", "'1,9'", "1,9"),
    "set_empty": ("SET('a')", "''", ""),
    "char_": ("CHAR(10)", "'abc  '", "abc"),
    "char_wide": ("CHAR(100)", "repeat('ö', 100)", "ö" * 100),
    "char_utf16": ("CHAR(10) CHARACTER SET utf16", "'ö𝄞'", "ö𝄞"),
    "text_json": ("VARCHAR(50)", r"'quote\" back\\ \n tab\t 😀'", 'quote" back\\ \n tab\t 😀'),
    "latin1_": ("VARCHAR(1000) CHARACTER SET latin1", "x'FF80819F'", "ÿ€\x81Ÿ"),
    "ucs2_": ("VARCHAR(10) CHARACTER SET ucs2", "'ñ'", "ñ"),
    "utf32_": ("VARCHAR(10) CHARACTER SET utf32", "'😀'", "😀"),
    "sjis_": ("VARCHAR(20) CHARACTER SET sjis", "'日本'", "日本"),
    "tinytext_": ("TINYTEXT", "'tiny'", "tiny"),
    "text_": ("TEXT CHARACTER SET latin2", "'žluťoučký'", "žluťoučký"),
    "mediumtext_": ("MEDIUMTEXT", "repeat('m', 70000)", "m" * 70000),
    "longtext_": ("LONGTEXT", "'long'", "long"),
    "json_": ("JSON", """'{"a": [1, 2]}'""", '{"a": [1, 2]}'),
    "binary_": ("BINARY(8)", "x'0100'", base64.b64encode(b"\1" + bytes(7)).decode()),
    "varbinary_": ("VARBINARY(20)", "x'00ff00'", "AP8A"),
    "varbinary_long": ("VARBINARY(2000)", "x'deadbeef00'", "3q2+7wA="),
    "blob_": ("BLOB", "x'0001'", "AAE="),
    "longblob_": ("LONGBLOB", "repeat(x'00', 100)", base64.b64encode(bytes(100)).decode()),
    "point_": ("POINT", "POINT(1,2)", {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None}),
    "geometry_": (
        "GEOMETRY",
        "ST_GeomFromText('POINT(1 2)', 4326)",
        {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": 4326},
    ),
    "after_point": ("VARCHAR(5) CHARACTER SET latin1", "'é'", "é"),
    "uuid_1": (
        "UUID",
        "'c232ab00-9414-11ec-b3c8-9f6bdeced846'",
        "c232ab00-9414-11ec-b3c8-9f6bdeced846",
    ),
    "uuid_7": (
        "UUID",
        "'017f22e2-79b0-7cc3-98c4-dc0c0c07398f'",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
    ),
    "uuid_0": (
        "UUID",
        "'00000000-0000-0000-0000-000000000000'",
        "00000000-0000-0000-0000-000000000000",
    ),
    "inet4_": ("INET4", "'10.0.0.1'", "10.0.0.1"),
    "inet6_": ("INET6", "'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329"),
    "inet6_in_4": ("INET6", "'::ffff:1.2.3.4'", "::ffff:1.2.3.4"),
    "inet6_one": ("INET6", "'::1'", "::1"),
    "varchar_compressed": (
        "VARCHAR(200) COMPRESSED",
        "repeat('compress me', 10)",
        "compress me" * 10,
    ),
    "varchar_not_worth": ("VARCHAR(200) COMPRESSED", "'x'", "x"),
    "blob_compressed": (
        "BLOB COMPRESSED",
        "repeat(x'00ff', 100)",
        base64.b64encode(b"\0\xff" * 100).decode(),
    ),
    "text_compressed": ("TEXT COMPRESSED CHARACTER SET latin1", "repeat('é', 200)", "é" * 200),
    "stored": ("INT AS (id + 1) STORED", "", 3),
    "virtual_": ("INT AS (id + 2) VIRTUAL", "", 4),
    "hidden": ("INT INVISIBLE DEFAULT 7", "7", 7),
    "last": ("VARCHAR(10) DEFAULT 'end'", "'end'", "end"),
}


def _table(setting: Setting) -> None:
    columns = ", ".join(f"{name} {case[0]}" for name, case in CASES.items())
    setting.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")


def _fill(setting: Setting) -> None:
    given = ", ".join(f"{name} = {case[1]}" for name, case in CASES.items() if case[1])
    setting.execute(
        "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        f"INSERT INTO t SET id = 2, {given}",
        "INSERT INTO t (id) VALUES (3)",
    )


def test_the_binary_log_gives_every_type_as_it_is(setting: Setting) -> None:
    _table(setting)
    setting.snapshot()
    _fill(setting)
    setting.stream()
    full, empty = [after for _, _, after in setting.changes("t")]
    for name, (_, _, wanted) in CASES.items():
        assert (name, full[name]) == (name, wanted)
    generated = {"id", "stored", "virtual_", "hidden", "last"}
    assert {name for name, value in empty.items() if value is not None} == generated


def test_a_snapshot_gives_the_same_as_the_binary_log(setting: Setting) -> None:
    _table(setting)
    setting.snapshot()
    _fill(setting)
    setting.stream()
    assert setting.as_snapshot("t") == setting.fold("t")


def test_a_snapshot_and_the_stream_agree_on_the_schema(setting: Setting) -> None:
    _table(setting)
    setting.snapshot(setting.config(schema=True))
    _fill(setting)
    new = setting.stream(setting.config(schema=True))
    topics = {topic for topic, _, _ in new}
    assert topics == {f"{setting.name}.t"}, "nothing changed, so no schema is told again"
    fields = new[0][2]["schema"]["fields"][1]["fields"]
    assert {field["field"]: field["type"] for field in fields}["decimal_"] == "string"
    assert new[0][2]["payload"]["after"]["id"] == 2


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"decimals": "precise"}, {"d": "AJ7Z", "z": "0000-00-00", "n": "0000-00-00 00:00:00"}),
        ({"decimals": "double"}, {"d": 406.65, "z": "0000-00-00", "n": "0000-00-00 00:00:00"}),
        ({"zero_dates": "debezium"}, {"d": "406.65", "z": None, "n": 0}),
    ],
)
def test_the_forms_of_debezium_can_be_chosen(
    setting: Setting, options: dict[str, str], wanted: dict[str, Any]
) -> None:
    setting.execute(
        "SET sql_mode = ''",
        "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(10,2), z DATE, n DATETIME NOT NULL)",
        "INSERT INTO t VALUES (1, 406.65, '0000-00-00', '0000-00-00 00:00:00')",
    )
    setting.snapshot(setting.config(options=options))
    setting.execute("SET sql_mode = ''", "INSERT INTO t SELECT 2, d, z, n FROM t")
    setting.stream(setting.config(options=options))
    for _, _, after in setting.changes("t"):
        after.pop("id")
        assert after == wanted


def test_every_byte_of_every_8_bit_character_set_is_read_as_the_server_does(
    setting: Setting,
) -> None:
    known = sorted(charsets.KNOWN - {charsets.BINARY})
    single = [
        row[0] for row in setting.execute("SHOW CHARACTER SET") if row[3] == 1 and row[0] in known
    ]
    assert {"latin1", "latin2", "cp1251", "koi8r"} <= set(single)
    for name in single:
        decode = charsets.decoder(name)
        shown = ", ".join(
            f"HEX(CONVERT(_{name} x'{byte:02x}' USING utf8mb4))" for byte in range(256)
        )
        theirs = setting.execute(f"SELECT {shown}")[0]
        for byte in range(256):
            text = bytes.fromhex(theirs[byte]).decode()
            assert (name, byte, decode(bytes([byte]))) == (name, byte, text)


def test_a_character_set_that_cannot_be_read_is_an_error_not_a_guess(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET geostd8)")
    found = setting.findings()["table t"]
    assert not found.ok and "geostd8" in found.sentence and found.remedy


def test_json_numbers_stay_whole(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY)")
    setting.snapshot()
    setting.execute("INSERT INTO t VALUES (18446744073709551615)")
    setting.stream()
    assert json.dumps(setting.changes("t")[0][2]) == '{"id": 18446744073709551615}'
