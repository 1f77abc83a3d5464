"""The headers of questions and answers, as Spring for Apache Kafka names them.

question   kafka_replyTopic      where the answer is to go
           kafka_correlationId   bytes that the asker chose, to know it by
answer     kafka_correlationId   the same bytes
           headwater_request     TOPIC:PARTITION=OFFSET of the question
"""

from __future__ import annotations

REPLY_TOPIC = "kafka_replyTopic"
CORRELATION_ID = "kafka_correlationId"
REQUEST = "headwater_request"
