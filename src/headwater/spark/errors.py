"""What can go wrong between Spark and the log, said to the person who wrote the query.

Spark shows a worker's exception as text, so the hint is part of that text.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError


class SparkError(HeadwaterError):
    """One sentence, and what to do next."""

    def __str__(self) -> str:
        sentence = super().__str__()
        return f"{sentence} {self.hint}" if self.hint else sentence

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.args[0], self.hint)


class BadOption(SparkError):
    """An option of `spark.read` or `df.write` that cannot be meant."""


class BrokerUnreachable(SparkError):
    """No broker answered until the deadline."""


class LoginRefused(SparkError):
    """The broker was reached and does not let this user in: trying again would not help."""


class UnknownTopic(SparkError):
    """The topic, or one of its partitions, is not there."""


class DataLoss(SparkError):
    """Records that the query should have read are gone (`failOnDataLoss`)."""


class KafkaError(SparkError):
    """The broker answered with an error code that trying again does not mend."""

    def __init__(self, sentence: str, *, hint: str | None = None, code: int = -1) -> None:
        super().__init__(sentence, hint=hint)
        self.code = code


def _again(kind: type[SparkError], sentence: str, hint: str | None) -> SparkError:
    return kind(sentence, hint=hint)
