"""What the registry says no with: an HTTP status, Confluent's error code, and one sentence.

Clients look at the code (`{"error_code": 40401, "message": …}`), and some of them at the words.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError

INCOMPATIBLE = 40901


class RegistryError(HeadwaterError):
    """A request that is answered with an error. `code` is Confluent's; its first three digits are the
    status.
    """

    def __init__(self, code: int, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence, hint=hint)
        self.code = code

    @property
    def status(self) -> int:
        return self.code // 100 if self.code > 999 else self.code


class InvalidSchema(RegistryError):
    """The text is no schema of its type."""

    def __init__(self, sentence: str) -> None:
        super().__init__(42201, sentence)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> RegistryError:
    return RegistryError(40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> RegistryError:
    return RegistryError(
        40403, "Schema not found" if which is None else f"Schema {which} not found"
    )


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40404,
        f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        40405,
        f"Subject '{subject}' was not deleted first before being permanently deleted",
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40406,
        f"Subject '{subject}' Version {version} was soft deleted. "
        "Set permanent=true to delete permanently",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        40407,
        f"Subject '{subject}' Version {version} was not deleted first before being "
        "permanently deleted",
    )


def no_compatibility_of(subject: str) -> RegistryError:
    return RegistryError(
        40408, f"Subject '{subject}' does not have subject-level compatibility configured"
    )


def no_mode_of(subject: str) -> RegistryError:
    return RegistryError(40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(sentence: str) -> RegistryError:
    return RegistryError(INCOMPATIBLE, sentence)


def invalid_version(version: object) -> RegistryError:
    return RegistryError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are "
        'between [1, 2^31-1] and the string "latest"',
    )


def invalid_level(level: object) -> RegistryError:
    return RegistryError(
        42203,
        f"Invalid compatibility level {level!r}. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(mode: object) -> RegistryError:
    return RegistryError(
        42204,
        f"Invalid mode {mode!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT",
    )


def not_permitted(sentence: str) -> RegistryError:
    return RegistryError(42205, sentence)


def reference_exists(sentence: str) -> RegistryError:
    return RegistryError(42206, sentence)


def id_does_not_match(sentence: str) -> RegistryError:
    return RegistryError(42207, sentence)


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(42208, f"The specified subject '{subject}' is not a valid subject.")


def too_large(sentence: str) -> RegistryError:
    return RegistryError(42209, sentence)


def store_failed(sentence: str) -> RegistryError:
    return RegistryError(50001, sentence)


def timed_out(sentence: str) -> RegistryError:
    return RegistryError(50002, sentence)


def other_writer(sentence: str) -> RegistryError:
    return RegistryError(50003, sentence)
