"""What administrators do through the console, without the page around it: each first asks whether they may.

    topics    create, configure, add partitions, delete; settings of brokers
    access    users, permissions, quotas
    groups    reset, delete offsets, delete
    parts     pause, resume, restart

Called by `forms` and `pages`, from threads. Every public function that takes a visit begins with
`visit.must(Action.X)`, whatever its button looked like, and asks the broker in the visitor's name
(`visit.log`, `delegates`). What can be tried first has `dry_run`: the broker checks it and changes nothing.
"""
