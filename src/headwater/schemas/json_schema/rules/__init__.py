"""Parts of `compatibility`: keywords that no shape tells of, patterns of properties, alternatives."""
