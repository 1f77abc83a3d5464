"""Every path of the interface: what it answers, and with which code it says no."""

from __future__ import annotations

import itertools
import json

import httpx
import pytest

_numbers = itertools.count()
RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
WIDER = '{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}'
OTHER = '{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}'


@pytest.fixture
def http(registry: str):
    with httpx.Client(base_url=registry, timeout=60) as found:
        yield found


@pytest.fixture
def subject() -> str:
    return f"s{next(_numbers)}-value"


def put(http: httpx.Client, subject: str, text: str, **more: object) -> httpx.Response:
    return http.post(f"/subjects/{subject}/versions", json={"schema": text, **more})


def error(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error_code"]


def test_a_new_registry_says_what_it_is(http):
    assert http.get("/").json() == {}
    assert set(http.get("/schemas/types").json()) == {"AVRO", "JSON", "PROTOBUF"}
    assert http.get("/config").json()["compatibilityLevel"] == "BACKWARD"
    assert http.get("/mode").json() == {"mode": "READWRITE"}
    assert "." in http.get("/contexts").json()
    assert http.get("/healthz").json() == {"ok": True}
    assert http.get("/").headers["content-type"] == "application/vnd.schemaregistry.v1+json"
    assert (
        http.get("/", headers={"accept": "application/json"}).headers["content-type"]
        == "application/json"
    )


def test_register_look_up_and_read(http, subject):
    made = put(http, subject, RECORD).json()
    assert made["version"] == 1
    one = http.get(f"/subjects/{subject}/versions/1").json()
    assert one["id"] == made["id"] and one["schema"] == RECORD and one["subject"] == subject
    assert "schemaType" not in one  # of Avro, as ever
    assert http.get(f"/subjects/{subject}/versions/latest").json() == one
    assert http.get(f"/subjects/{subject}/versions/latest/schema").text == RECORD
    assert http.get(f"/schemas/ids/{made['id']}").json()["schema"] == RECORD
    assert http.get(f"/schemas/ids/{made['id']}/schema").text == RECORD
    found = http.post(f"/subjects/{subject}", json={"schema": RECORD}).json()
    assert found == one
    assert subject in http.get(f"/schemas/ids/{made['id']}/subjects").json()
    assert {"subject": subject, "version": 1} in http.get(
        f"/schemas/ids/{made['id']}/versions"
    ).json()
    assert http.get(f"/schemas/guids/{one['guid']}").json()["schema"] == RECORD
    assert http.get(f"/schemas/guids/{one['guid']}/ids").json() == [
        {"context": ".", "id": made["id"]}
    ]
    assert http.get("/schemas", params={"subjectPrefix": subject}).json() == [one]
    assert subject in http.get("/subjects").json()
    assert http.get("/subjects", params={"subjectPrefix": subject}).json() == [subject]


def test_one_schema_has_one_id_in_every_subject(http, subject):
    first = put(http, subject, RECORD).json()["id"]
    assert put(http, f"{subject}-again", f" {RECORD} ").json()["id"] == first


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("GET", "/subjects/none/versions", None, (404, 40401)),
        ("GET", "/subjects/none/versions/1", None, (404, 40401)),
        ("GET", "/subjects/{subject}/versions/9", None, (404, 40402)),
        ("GET", "/subjects/{subject}/versions/0", None, (422, 42202)),
        ("GET", "/subjects/{subject}/versions/soon", None, (422, 42202)),
        ("GET", "/schemas/ids/99999999", None, (404, 40403)),
        ("GET", "/schemas/guids/none", None, (404, 40403)),
        ("DELETE", "/subjects/none", None, (404, 40401)),
        ("DELETE", "/subjects/{subject}/versions/9", None, (404, 40402)),
        ("DELETE", "/subjects/{subject}?permanent=true", None, (404, 40405)),
        ("DELETE", "/subjects/{subject}/versions/1?permanent=true", None, (404, 40407)),
        ("POST", "/subjects/none", {"schema": RECORD}, (404, 40401)),
        ("POST", "/subjects/{subject}", {"schema": '"string"'}, (404, 40403)),
        ("POST", "/subjects/{subject}/versions", {"schema": OTHER}, (409, 40901)),
        ("POST", "/subjects/{subject}/versions", {"schema": "{"}, (422, 42201)),
        ("POST", "/subjects/{subject}/versions", {"schema": ""}, (422, 42201)),
        ("POST", "/subjects/{subject}/versions", {}, (422, 42201)),
        (
            "POST",
            "/subjects/{subject}/versions",
            {"schema": "x", "schemaType": "XML"},
            (422, 42201),
        ),
        ("POST", "/subjects/%20/versions", {"schema": RECORD}, (422, 42208)),
        ("POST", "/subjects/{subject}/versions", {"schema": WIDER, "id": 5}, (422, 42205)),
        ("POST", "/compatibility/subjects/{subject}/versions/9", {"schema": RECORD}, (404, 40402)),
        ("GET", "/config/{subject}", None, (404, 40408)),
        ("GET", "/mode/{subject}", None, (404, 40409)),
        ("DELETE", "/config/{subject}", None, (404, 40408)),
        ("DELETE", "/mode/{subject}", None, (404, 40409)),
        ("PUT", "/config/{subject}", {"compatibility": "SOMETIMES"}, (422, 42203)),
        ("PUT", "/mode/{subject}", {"mode": "SOMETIMES"}, (422, 42204)),
        ("PUT", "/mode/{subject}", {"mode": "IMPORT"}, (422, 42205)),
        ("GET", "/nowhere", None, (404, 404)),
        ("PATCH", "/subjects", None, (405, 405)),
    ],
)
def test_what_cannot_be_is_refused_with_its_code(http, method, path, body, said):
    subject = "refusals-value"
    assert put(http, subject, RECORD).status_code == 200
    assert error(http.request(method, path.format(subject=subject), json=body)) == said


def test_what_is_no_json_is_refused(http, subject):
    answer = http.post(f"/subjects/{subject}/versions", content=b"{")
    assert error(answer) == (400, 400)
    assert error(http.post(f"/subjects/{subject}/versions", content=b"[1]")) == (400, 400)


def test_soft_and_permanent_deletion(http, subject):
    put(http, subject, RECORD)
    made = put(http, subject, WIDER).json()["id"]
    assert http.delete(f"/subjects/{subject}/versions/1").json() == 1
    assert error(http.get(f"/subjects/{subject}/versions/1")) == (404, 40402)
    assert http.get(f"/subjects/{subject}/versions/1?deleted=true").json()["version"] == 1
    assert http.get(f"/subjects/{subject}/versions?deletedOnly=true").json() == [1]
    assert error(http.delete(f"/subjects/{subject}/versions/1")) == (404, 40406)
    assert http.delete(f"/subjects/{subject}").json() == [2]
    assert error(http.delete(f"/subjects/{subject}")) == (404, 40404)
    assert subject not in http.get("/subjects").json()
    assert subject in http.get("/subjects?deleted=true").json()
    assert subject in http.get("/subjects?deletedOnly=true").json()
    assert http.get(f"/schemas/ids/{made}").status_code == 200  # data with it is still there
    again = put(http, subject, WIDER).json()
    assert again["id"] == made and again["version"] == 3
    http.delete(f"/subjects/{subject}")
    assert http.delete(f"/subjects/{subject}?permanent=true").json() == [1, 2, 3]
    assert error(http.get(f"/subjects/{subject}/versions")) == (404, 40401)


def test_levels_are_of_all_of_a_subject_and_given_up_again(http, subject):
    put(http, subject, WIDER)
    assert put(http, subject, RECORD).status_code == 409
    answer = http.put(f"/config/{subject}", json={"compatibility": "forward"})
    assert answer.json() == {"compatibility": "FORWARD"}
    assert http.get(f"/config/{subject}").json()["compatibilityLevel"] == "FORWARD"
    assert put(http, subject, RECORD).status_code == 200
    assert http.delete(f"/config/{subject}").json() == {"compatibilityLevel": "FORWARD"}
    assert (
        http.get(f"/config/{subject}?defaultToGlobal=true").json()["compatibilityLevel"]
        == "BACKWARD"
    )


def test_a_comparison_says_why(http, subject):
    put(http, subject, RECORD)
    path = f"/compatibility/subjects/{subject}/versions"
    said = http.post(f"{path}/latest?verbose=true", json={"schema": OTHER}).json()
    assert said["is_compatible"] is False
    assert "TYPE_MISMATCH" in said["messages"][0] and "'/fields/0/type'" in said["messages"][0]
    assert http.post(f"{path}?verbose=true", json={"schema": WIDER}).json() == {
        "is_compatible": True, "messages": []}  # fmt: skip
    nobody = http.post("/compatibility/subjects/nobody/versions/latest", json={"schema": OTHER})
    assert nobody.json() == {"is_compatible": True}


def test_references_hold_what_they_refer_to(http, subject):
    put(http, f"{subject}-base", '{"type":"record","name":"B","fields":[]}')
    text = '{"type":"record","name":"T","fields":[{"name":"b","type":"B"}]}'
    wanted = [{"name": "B", "subject": f"{subject}-base", "version": 1}]
    made = put(http, subject, text, references=wanted).json()
    assert http.get(f"/subjects/{subject}/versions/1").json()["references"] == wanted
    assert http.get(f"/subjects/{subject}-base/versions/1/referencedby").json() == [made["id"]]
    assert error(http.delete(f"/subjects/{subject}-base")) == (422, 42206)
    assert error(http.delete(f"/subjects/{subject}-base/versions/1")) == (422, 42206)
    missing = [{"name": "B", "subject": f"{subject}-base", "version": 7}]
    assert error(put(http, subject, text, references=missing)) == (422, 42201)
    http.delete(f"/subjects/{subject}")
    http.delete(f"/subjects/{subject}?permanent=true")
    assert http.delete(f"/subjects/{subject}-base").status_code == 200


def test_a_schema_is_found_with_its_references_written_out(http, subject):
    """As programs have it that were generated from it, and Confluent's registry finds it."""
    base = '{"type":"record","name":"B","namespace":"o","fields":[{"name":"x","type":"int"}]}'
    text = ('{"type":"record","name":"T","namespace":"n","fields":[{"name":"b","type":%s},'
            '{"name":"c","type":"o.B"}]}')  # fmt: skip
    put(http, f"{subject}-base", base)
    wanted = [{"name": "o.B", "subject": f"{subject}-base", "version": 1}]
    made = put(http, subject, text % '"o.B"', references=wanted).json()
    found = http.post(f"/subjects/{subject}", json={"schema": text % base})
    assert (found.json()["id"], found.json()["references"]) == (made["id"], wanted)
    other = http.post(f"/subjects/{subject}", json={"schema": text % base.replace("int", "long")})
    assert error(other) == (404, 40403)
    assert put(http, subject, text % base).json()["id"] != made["id"]  # registered as it is


def test_a_subject_that_is_read_only_changes_no_more(http, subject):
    put(http, subject, RECORD)
    assert http.put(f"/mode/{subject}", json={"mode": "READONLY"}).json() == {"mode": "READONLY"}
    assert error(put(http, subject, WIDER)) == (422, 42205)
    assert error(http.delete(f"/subjects/{subject}")) == (422, 42205)
    # What is there is found: serializers that register at every start go on.
    assert put(http, subject, RECORD).json()["version"] == 1
    assert http.delete(f"/mode/{subject}").json() == {"mode": "READONLY"}
    assert put(http, subject, WIDER).status_code == 200


def test_ids_and_versions_are_kept_while_importing(http, subject):
    assert http.put(f"/mode/{subject}", json={"mode": "IMPORT"}).status_code == 200
    made = put(http, subject, RECORD.replace('"R"', f'"R{subject[:-6]}"'), id=900_001, version=4)
    assert made.json()["id"] == 900_001 and made.json()["version"] == 4
    other = put(http, subject, '"bytes"', id=900_001, version=5)
    assert error(other) == (422, 42205)
    http.put(f"/mode/{subject}", json={"mode": "READWRITE"})
    assert (
        put(http, f"{subject}-next", '{"type":"fixed","name":"n","size":77}').json()["id"] > 900_001
    )


def test_while_importing_no_id_is_given_and_no_version_becomes_another(http, subject):
    http.put(f"/mode/{subject}", json={"mode": "IMPORT"})
    name = f"F{subject[:-6]}"

    def fixed(size: int) -> str:
        return f'{{"type":"fixed","name":"{name}","size":{size}}}'

    assert put(http, subject, fixed(1), id=910_001, version=1).status_code == 200
    # A serializer that registers by itself would take an id that is still to come.
    refused = put(http, subject, fixed(2))
    assert error(refused) == (422, 42205) and "not in read-write mode" in refused.text
    assert put(http, subject, fixed(1)).json()["id"] == 910_001
    for text, identity in ((fixed(2), 910_002), (fixed(1), 910_003)):
        refused = put(http, subject, text, id=identity, version=1)
        assert error(refused) == (422, 42205) and "Overwrite version 1" in refused.text
    assert http.get("/schemas/ids/910001").json()["schema"] == fixed(1)
    assert put(http, subject, fixed(1), id=910_001, version=1).json()["version"] == 1
    assert error(put(http, subject, fixed(2), id=910_002, version=2**31)) == (422, 42202)
    assert put(http, subject, fixed(2), id=910_002, version=2**31 - 1).status_code == 200
    assert error(put(http, subject, fixed(3), id=910_003)) == (500, 50001)


def test_a_version_may_be_named_where_it_is_the_next(http, subject):
    assert put(http, subject, RECORD, version=1).json()["version"] == 1
    assert error(put(http, subject, WIDER, version=3)) == (422, 42201)
    assert put(http, subject, WIDER, version=2).json()["version"] == 2
    assert error(put(http, subject, RECORD, id=7)) == (422, 42205)


def test_level_and_mode_go_with_a_subject_s_last_version(http, subject):
    put(http, subject, RECORD)
    http.put(f"/config/{subject}", json={"compatibility": "NONE"})
    put(http, subject, WIDER)
    http.delete(f"/subjects/{subject}/versions/2")
    assert http.get(f"/config/{subject}").json()["compatibilityLevel"] == "NONE"
    http.delete(f"/subjects/{subject}/versions/1")
    assert error(http.get(f"/config/{subject}")) == (404, 40408)


def test_contexts_have_subjects_and_ids_of_their_own(http, subject):
    inside = f":.team-{subject[:-6]}:{subject}"
    text = '{"type":"enum","name":"E","symbols":["A"]}'
    made = put(http, inside, text).json()
    assert made["id"] == 1
    context = f".team-{subject[:-6]}"
    assert context in http.get("/contexts").json()
    assert http.get(f"/subjects/{inside}/versions/1").json()["schema"] == text
    assert (
        http.get(f"/contexts/{context}/subjects/{subject}/versions/1").json()["subject"] == inside
    )
    assert http.get(f"/contexts/{context}/schemas/ids/1").json()["schema"] == text
    assert http.get("/schemas/ids/1", params={"subject": inside}).json()["schema"] == text
    assert http.get(f"/contexts/{context}/subjects").json() == [inside]
    assert inside in http.get("/subjects").json()
    assert inside not in http.get("/subjects?subjectPrefix=").json()


def test_a_subject_may_have_a_slash_and_other_letters(http):
    name = "a%2Fb%3A%20ü"
    assert put(http, name, RECORD).status_code == 200
    assert "a/b: ü" in http.get("/subjects").json()
    assert http.get(f"/subjects/{name}/versions/latest").json()["subject"] == "a/b: ü"


def test_texts_that_mean_the_same_are_one_when_normalised(http, subject):
    one = '{"type":"record","name":"x.R","fields":[{"name":"a","type":{"type":"int","b":1,"a":2}}]}'
    two = ('{"fields":[{"type":{"a":2,"type":"int","b":1},"name":"a"}],"namespace":"x","name":"R",'
           '"type":"record"}')  # fmt: skip
    made = http.post(f"/subjects/{subject}/versions?normalize=true", json={"schema": one}).json()
    same = http.post(f"/subjects/{subject}/versions?normalize=true", json={"schema": two}).json()
    assert same == made
    for number, each in enumerate(
        ('"more":{"a":1,"b":[{"c":1,"d":2}]}', '"more":{"b":[{"d":2,"c":1}],"a":1}')
    ):
        text = f'{{"type":"record","name":"M","fields":[],{each}}}'
        put(http, f"{subject}-{number}", f'{{"type":"record","name":"{"BC"[number]}","fields":[]}}')
        made = http.post(
            f"/subjects/{subject}-m/versions?normalize=true", json={"schema": text}
        ).json()
        assert made["version"] == 1
    references = [{"name": "BC"[n], "subject": f"{subject}-{n}", "version": 1} for n in (0, 1)]
    for some in (references, references[::-1]):
        body = {"schema": '["B","C"]', "references": some}
        made = http.post(f"/subjects/{subject}-r/versions?normalize=true", json=body).json()
        assert made["version"] == 1
    http.put(f"/config/{subject}-n", json={"normalize": True})
    assert (
        put(http, f"{subject}-n", one).json()["id"] == put(http, f"{subject}-n", two).json()["id"]
    )


def test_metadata_is_kept_and_found(http, subject):
    more = {"metadata": {"properties": {"owner": "shop"}}}
    put(http, subject, RECORD, **more)
    found = http.get(f"/subjects/{subject}/metadata?key=owner&value=shop").json()
    assert found["metadata"] == more["metadata"] and found["version"] == 1
    assert error(http.get(f"/subjects/{subject}/metadata?key=owner&value=x")) == (404, 40403)


def test_lists_come_in_pages(http, subject):
    for number in range(3):
        put(http, f"{subject}-{number}", json.dumps("string"))
    asked = {"subjectPrefix": f"{subject}-", "offset": 1, "limit": 1}
    assert http.get("/subjects", params=asked).json() == [f"{subject}-1"]
