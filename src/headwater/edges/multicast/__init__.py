"""UDP multicast with recovery: a receiver ends with every message, in order, or with a gap that is named.

sender ──multicast──▶ receivers      data with sequence numbers; heartbeats with the last number
sender ◀──unicast──── receiver       "I lack 17 to 19"
sender ──unicast────▶ receiver       these again, as long as the sender still holds them

packets     what goes over the wire; pure
sender      numbers, holds what was sent within a bound, answers who lacks some; pure
receiver    puts in order, asks for what is missing, gives up with a gap; pure
addresses   multicast://239.1.2.3:5004?interface=…; pure
sockets     what the kernel is asked for
speaker     a thread: sender and socket        listener   a thread: receiver and sockets
resumption  where a receiver was, read back from the log; replay_window, sessions: what is a copy
bridge      plugs both into `edges.bridges`
"""
