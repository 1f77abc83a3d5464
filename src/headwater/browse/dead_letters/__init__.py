"""Dead letters: what share groups rejected, what queries could not decode, what targets refused.

    letter   one dead letter, and which topics hold such (Kafka's headers, KIP-1191)
    survey   the letters of a topic, in order, and the account: which were sent back or dismissed
    replay   back to where they came from, corrected if need be, each once

Called by `headwater deadletters` and by the console's page; both leave the same account, so what one of
them sent back the other does not send again.
"""
