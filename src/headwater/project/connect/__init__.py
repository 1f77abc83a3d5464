"""Moving in from Kafka Connect: a connector's configuration as a section of headwater.toml.

    configuration  what a file holds, whichever way it was written
    sources        Debezium's source connectors → [capture.NAME]
    sinks          JDBC's and Elasticsearch's sinks → [views.NAME] and a pipeline

Pure: nothing is asked and nothing is started. Whatever has no counterpart is told, never dropped silently.
"""

from __future__ import annotations
