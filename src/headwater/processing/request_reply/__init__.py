"""Request and reply over the log: a question is an event, its answer another.

    requests   the questions of a topic, as a stream                (pipeline)
    to="replies:"   a view whose rows are the answers to them       (pipeline)
    Asker, ask      ask, and wait for the answer                    (anyone)

Header names are those of Spring for Apache Kafka, so that its clients can ask, too.
"""

from headwater.processing.request_reply.client import Answer, Asker, NotAnswered, ask
from headwater.processing.request_reply.questions import requests
from headwater.processing.request_reply.replies import REPLIES
from headwater.views.targets.registry import register

register("replies", f"{__name__}.replies:RepliesTarget", is_store=False)

__all__ = ["REPLIES", "Answer", "Asker", "NotAnswered", "ask", "requests"]
