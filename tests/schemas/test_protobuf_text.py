"""The text kept of a Protobuf schema means what was sent: compiled again, it is the same descriptor."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headwater.schemas import kinds, levels
from headwater.schemas.levels import Known
from headwater.schemas.model import PROTOBUF
from headwater.schemas.protobuf.document import ProtobufSchema

GOOGLE = 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions'
TEXTS = {
    "a default of bytes": r'syntax="proto2"; message M { optional bytes b=1 [default="\001\xff\"\n\\"]; }',
    "a default with a control character": 'syntax="proto2"; message M { optional string s=1 '
    r'[default="\r\t\001é\177"]; }',
    "an option that stands several times": 'syntax="proto3"; message M { string s=1 '
    "[targets=TARGET_TYPE_FIELD, targets=TARGET_TYPE_FILE]; }",
    "features of a file": 'edition="2023"; option features.field_presence=IMPLICIT; '
    "message M { string a=1; }",
    "features of fields": 'edition="2023"; message M { string a=1 [features.field_presence=IMPLICIT];'
    " M b=2 [features.message_encoding=DELIMITED]; int32 q=3 [features.field_presence=LEGACY_REQUIRED]; }",
    "a closed enum": 'edition="2023"; enum E { option features.enum_type=CLOSED; A=1; } message M { E e=1; }',
    "a group of an extension": 'syntax="proto2"; message M { extensions 10 to 20; '
    "extend M { optional group G=10 { optional int32 a=1; } } }",
    "options of extensions": 'syntax="proto2"; message M { extensions 10 [verification=UNVERIFIED]; }',
    "a custom option behind a comment": f'syntax="proto3"; {GOOGLE} {{ string my=50000; }} '
    'message M { string x=1 [ /* why */ (my)="q"]; }',
    "a service": 'syntax="proto3"; message M {} service S { rpc F(stream M) returns (M) '
    "{ option idempotency_level=NO_SIDE_EFFECTS; } }",
}  # fmt: skip


def parsed(text: str) -> ProtobufSchema:
    found = kinds.parse(PROTOBUF, text, (), is_new=True)
    assert isinstance(found, ProtobufSchema)
    return found


def meaning(file: FileDescriptorProto) -> FileDescriptorProto:
    made = FileDescriptorProto()
    made.CopyFrom(file)
    made.ClearField("source_code_info")
    return made


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_kept_means_what_was_sent(text: str):
    sent = parsed(text)
    kept = parsed(sent.canonical)
    assert meaning(kept.file) == meaning(sent.file)
    assert kept.canonical == sent.canonical
    assert parsed(sent.normalized).normalized == sent.normalized


@pytest.mark.parametrize(
    "name", [each for each in TEXTS if each not in ("a group of an extension", "options of extensions")]
)  # fmt: skip
def test_a_descriptor_in_base64_is_compiled_to_itself(name: str):
    sent = parsed(TEXTS[name]).file
    found = parsed(base64.b64encode(sent.SerializeToString()).decode()).file
    if "custom" not in name:
        assert meaning(found) == meaning(sent)


def test_a_message_that_becomes_delimited_is_refused_by_what_is_kept():
    texts = [
        'edition="2023"; message M { M m=1; }',
        'edition="2023"; message M { M m=1 [features.message_encoding=DELIMITED]; }',
    ]
    old, new = (parsed(parsed(each).canonical) for each in texts)
    assert levels.complaints(new, [Known(1, old)], "BACKWARD")


def test_messages_keep_their_places_when_normalised():
    """A value names its message by its place, in the file of who wrote it; each map makes one, too."""
    text = (
        'syntax = "proto3"; message M { int32 z = 9; map<string, int32> b = 2; message A { int32 x = 1; }'
        " message B { string y = 1; } map<string, int32> a = 1; int32 c = 3; }"
    )
    schema = kinds.parse("PROTOBUF", text)
    again = kinds.parse("PROTOBUF", schema.normalized)
    assert isinstance(schema, ProtobufSchema) and isinstance(again, ProtobufSchema)
    names = [[e.name for e in each.file.message_type[0].nested_type] for each in (schema, again)]
    assert names == [["BEntry", "A", "B", "AEntry"]] * 2
    other = text.replace("int32 z = 9; ", "").replace("int32 c = 3; ", "int32 c = 3; int32 z = 9; ")
    assert kinds.parse("PROTOBUF", other).normalized == schema.normalized
