"""The C programs that check themselves on any number of ranks: test_programs.py runs them on one host,
test_hosts.py on several."""

PROGRAMS = ["p2p_modes", "p2p_auto_buffer", "p2p_match", "p2p_complete", "coll_move", "coll_reduce", "coll_ops",
            "coll_many", "coll_outstanding", "types", "types_p2p", "comms", "hardware", "objects", "threads", "threads_mix",
            "threads_lanes", "small", "life", "alloc_mem", "topology", "coll_inter", "rma_ops", "rma_locks", "rma_random",
            "rma_pscw", "partitioned", "large_counts", "disconnect", "user_operators"]
