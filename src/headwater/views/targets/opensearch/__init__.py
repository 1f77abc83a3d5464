"""Views in OpenSearch or Elasticsearch, by their HTTP interface."""
