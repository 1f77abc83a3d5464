"""The transaction coordinator: which producer is in which transaction, and how that ends.

transaction   what is known of one transactional id: a frozen value
transitions   pure: a value and a request give the next value, or the error
records       that value as a record of `__transaction_state`, in Kafka's format
state_manager the values of all ids, in memory and in `__transaction_state`; how long each is open
markers       the end of a transaction in each partition that it wrote to
coordinator   puts these together; the handlers k22 to k28, k65 and k66 call it
"""
