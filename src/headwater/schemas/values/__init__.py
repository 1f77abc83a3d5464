"""Values by their schemas: five bytes that name one, then Avro, Protobuf or JSON.

    header    the five bytes                 codecs   a codec for each schema's id, and for a subject
    avro protobuf json   one type each: what is behind the five bytes, to and from what JSON has
    exact fit moments    JSON is stored as what it says, or refused

Used by whoever shows, takes or reads values: `browse`, `edges`, the command line, the Spark source.
"""
