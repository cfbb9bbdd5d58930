// SPDX-License-Identifier: MIT OR GPL-2.0
//
// The packet program of the kernel: what coll::lower::Machine says, in the path of the host's packets (S9;
// yu-2006, chapter 6). One fixed program, driven by tables that `tutti netd` and the job fill in; layouts and
// numbers are those of crates/offload/src/layout.rs, which the tests compare.
//
// Whatever a table or a packet says, memory is found by looking up maps: no arithmetic on pointers, so that
// loading needs CAP_BPF and CAP_NET_ADMIN and nothing more. Rules and events are written by the job, and so
// are checked when used; where a packet may go (`peers`) only netd writes.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum {
	PORT = 7547,
	MAGIC = 0x666f7574,
	GROUPS = 8,
	PROGRAMS = 36,
	RULES = 32,
	EVENTS = 32,
	AREAS = 16,
	CHANNELS = 32,
	PEERS = 32,
	AREA_WORDS = 64,
	AREA_BYTES = 8 * AREA_WORDS,
	// Words of a block that is combined.
	OPERANDS = 16,
	// Looks at the lock of a record; a packet that does not get it is lost, and asked for again.
	LOOKS = 1024,
	// Questions that may follow from one packet, each from the one before. Rules may make two hosts ask each
	// other: without an end that would go on for ever.
	HOPS = 64,
	FRAME = 42,
	HEADER = 48,
	DATA = FRAME + HEADER,
	CHUNK = 64,
};

enum purpose { ENTER = 1, MESSAGE, ASK, ALIVE };
enum action { END, COMBINE, EMIT, COMPLETE };
enum operator { NONE, SUM_I64, SUM_F64, MIN_I64, MAX_I64 };
enum counter { TAKEN, MALFORMED, STALE, DISAGREEMENT, AGAIN, WAITS, FORGED, BUSY, FOREIGN, EMITTED, COMPLETED, COUNTERS };

struct tag {
	u64 words[2];
};

struct header {
	u32 magic, job, group, sequence;
	u8 purpose, index, program, operator;
	u16 bytes, data;
	u32 from, to;
	struct tag tag;
};

// Ethernet, IPv4 without options, UDP; the first two bytes are for alignment.
struct frame {
	u8 pad[2];
	u8 to[6], from[6];
	u16 protocol;
	u8 version, service;
	u16 total, id, fragment;
	u8 hops, kind;
	u16 sum;
	u32 source, destination;
	u16 source_port, port, length, check;
};

struct job {
	u32 number, address;
	u8 mac[6];
	u16 wake_port;
	u64 key[2];
};

struct group {
	u32 id, is_used, rank, pad;
};

struct peer {
	u32 rank, address;
	u8 mac[6];
	u8 is_used, pad;
};

struct rule {
	u32 needs;
	u8 action, a, b, c;
};

struct event {
	u32 rank;
	u8 peer, rule, area, is_used;
};

struct record {
	u32 lock, sequence;
	u8 program, operator;
	u16 bytes;
	u32 arrived, fired, done, disputed, wake, heard;
};

struct area {
	u64 words[AREA_WORDS];
};

#define TABLE(NAME, ENTRIES, VALUE, FLAGS)                                                                             \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, ENTRIES);                                                                          \
		__uint(map_flags, FLAGS);                                                                              \
		__type(key, u32);                                                                                      \
		__type(value, VALUE);                                                                                  \
	} NAME SEC(".maps")

// Written by netd alone.
TABLE(jobs, 1, struct job, 0);
TABLE(groups, GROUPS, struct group, 0);
TABLE(peers, GROUPS *PEERS, struct peer, 0);
// The job's own.
TABLE(rules, GROUPS *PROGRAMS *RULES, struct rule, BPF_F_MMAPABLE);
TABLE(events, GROUPS *PROGRAMS *EVENTS, struct event, BPF_F_MMAPABLE);
TABLE(records, GROUPS *CHANNELS, struct record, BPF_F_MMAPABLE);
TABLE(areas, GROUPS *CHANNELS *AREAS, struct area, BPF_F_MMAPABLE);
TABLE(counters, COUNTERS, u64, BPF_F_MMAPABLE);

// What is done with one packet.
struct work {
	u32 slot, channel, program;
	u32 sequence;
	u32 operation; // program, operator and bytes, as in a record
	u32 bytes;     // of a block
	u32 payload;   // bytes behind the header now
	u32 held;      // the area they are of, and one more; 0: of none
	u32 hops;      // questions that may follow from it
};

static __always_inline void count(u32 what)
{
	u64 *counter = bpf_map_lookup_elem(&counters, &what);

	if (counter)
		__sync_fetch_and_add(counter, 1);
}

// SipHash-2-4 with 128 bits.
struct sip {
	u64 a, b, c, d;
};

#define TURN(x, by) (((x) << (by)) | ((x) >> (64 - (by))))

static __always_inline void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = TURN(s->b, 13) ^ s->a;
	s->d = TURN(s->d, 16) ^ s->c;
	s->a = TURN(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = TURN(s->b, 17) ^ s->c;
	s->d = TURN(s->d, 21) ^ s->a;
	s->c = TURN(s->c, 32);
}

static __always_inline void sip_word(struct sip *s, u64 word)
{
	s->d ^= word;
	sip_round(s);
	sip_round(s);
	s->a ^= word;
}

static __always_inline void sip_end(struct sip *s)
{
#pragma unroll
	for (int i = 0; i < 4; i++)
		sip_round(s);
}

// The tag of a header without its tag and of `payload` bytes behind it; 0 if they are not there.
__noinline int seal(struct __sk_buff *skb, const struct header *header, u32 payload, struct tag *tag)
{
	u32 zero = 0;
	struct job *job = bpf_map_lookup_elem(&jobs, &zero);
	const u64 *words = (const u64 *)header;
	u64 chunk[CHUNK / 8];

	if (!job || !header || !tag)
		return 0;
	struct sip s = { job->key[0] ^ 0x736f6d6570736575, job->key[1] ^ 0x646f72616e646f6d ^ 0xee,
			 job->key[0] ^ 0x6c7967656e657261, job->key[1] ^ 0x7465646279746573 };
#pragma unroll
	for (int i = 0; i < 4; i++)
		sip_word(&s, words[i]);
	for (u32 at = 0; at < AREA_BYTES && at < payload; at += CHUNK) {
		u32 size = payload - at;

		if (size > CHUNK)
			size = CHUNK;
		if (size == 0 || bpf_skb_load_bytes(skb, DATA + at, chunk, size))
			return 0;
#pragma unroll
		for (u32 i = 0; i < CHUNK / 8; i++)
			if (8 * i < size)
				sip_word(&s, chunk[i]);
	}
	sip_word(&s, (u64)((32 + payload) & 0xff) << 56);
	s.c ^= 0xee;
	sip_end(&s);
	tag->words[0] = s.a ^ s.b ^ s.c ^ s.d;
	s.b ^= 0xdd;
	sip_end(&s);
	tag->words[1] = s.a ^ s.b ^ s.c ^ s.d;
	return 1;
}

#define SIGN 0x8000000000000000
#define INFINITY 0x7ff0000000000000
#define FRACTION 0x000fffffffffffff
#define QUIET 0x0008000000000000

// Addition of f64 in integers, rounded to nearest, ties to even (IEEE 754, section 4.3.1): three more bits of
// each significand, the last of which stands for all that is shifted out.
__noinline u64 add_f64(u64 x, u64 y)
{
	u64 large = x & ~SIGN, small = y & ~SIGN, sign = x & SIGN, differs = (x ^ y) & SIGN;

	if (small > large) {
		u64 other = large;

		large = small;
		small = other;
		sign = y & SIGN;
	}
	if (large > INFINITY) // the first that is none is handed on
		return ((x & ~SIGN) > INFINITY ? x : y) | QUIET;
	if (large == INFINITY)
		return small == INFINITY && differs ? SIGN | INFINITY | QUIET : sign | INFINITY;
	u64 exponent = large >> 52, lower = small >> 52;
	u64 sum = (large & FRACTION) << 3, other = (small & FRACTION) << 3;

	if (exponent)
		sum |= 1ull << 55;
	else
		exponent = 1;
	if (lower)
		other |= 1ull << 55;
	else
		lower = 1;
	u64 by = exponent - lower;

	if (by > 60)
		other = other != 0;
	else if (by)
		other = (other >> by) | ((other & ((1ull << by) - 1)) != 0);
	sum = differs ? sum - other : sum + other;
	if (!sum)
		return differs ? 0 : sign;
	if (sum >> 56) {
		sum = (sum >> 1) | (sum & 1);
		exponent++;
	}
#pragma unroll
	for (int step = 32; step; step /= 2)
		if (exponent > step && !(sum >> (56 - step))) {
			sum <<= step;
			exponent -= step;
		}
	u64 rest = sum & 7;

	sum >>= 3;
	sum += rest > 4 || (rest == 4 && (sum & 1));
	// Its highest bit, and a carry beyond it, go into the exponent.
	sum += (exponent - 1) << 52;
	return sign | (sum >= INFINITY ? INFINITY : sum);
}

static __always_inline u64 apply(u32 operator, u64 left, u64 right)
{
	switch (operator) {
	case SUM_I64:
		return left + right;
	case SUM_F64:
		return add_f64(left, right);
	case MIN_I64:
		return (__s64)right < (__s64)left ? right : left;
	case MAX_I64:
		return (__s64)right > (__s64)left ? right : left;
	}
	return left;
}

static __always_inline struct area *area_of(struct work *work, u32 number)
{
	u32 key = (work->slot * CHANNELS + work->channel) * AREAS + number;

	return number < AREAS ? bpf_map_lookup_elem(&areas, &key) : 0;
}

__noinline int combine(struct work *work, u32 operator, u32 a, u32 b, u32 c)
{
	if (!work)
		return 0;
	struct area *left = area_of(work, a), *right = area_of(work, b), *into = area_of(work, c);

	if (!left || !right || !into)
		return 0;
#pragma unroll
	for (u32 i = 0; i < OPERANDS; i++)
		if (8 * i < work->bytes)
			into->words[i] = apply(operator, left->words[i], right->words[i]);
	return 0;
}

static __always_inline void address(struct frame *frame, const u8 *from_mac, u32 from, const u8 *mac, u32 to, u16 port,
				    u32 payload, u8 hops)
{
	u16 *words = (u16 *)&frame->version;
	u32 sum = 0;

	__builtin_memcpy(frame->to, mac, 6);
	__builtin_memcpy(frame->from, from_mac, 6);
	frame->protocol = bpf_htons(0x0800);
	frame->version = 0x45;
	frame->service = 0;
	frame->total = bpf_htons(20 + 8 + HEADER + payload);
	frame->id = 0;
	frame->fragment = bpf_htons(0x4000);
	frame->hops = hops;
	frame->kind = 17;
	frame->sum = 0;
	frame->source = from;
	frame->destination = to;
	frame->source_port = bpf_htons(PORT);
	frame->port = port;
	frame->length = bpf_htons(8 + HEADER + payload);
	frame->check = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	frame->sum = ~sum;
}

// Functions that are verified once, and not for each of their callers, are not static.
//
// Sends a message or a question to a peer: the packet at hand becomes it, and a clone of that goes out.
__noinline int emit(struct __sk_buff *skb, struct work *work, struct header *header, u32 place, u32 area)
{
	if (!work || !header)
		return 0;
	u32 zero = 0, key = work->slot * PEERS + place, size = area ? (work->bytes + 7) & ~7u : 0;
	struct job *job = bpf_map_lookup_elem(&jobs, &zero);
	struct peer *peer = place < PEERS ? bpf_map_lookup_elem(&peers, &key) : 0;
	struct frame frame = {};

	if (!job || !peer || !peer->is_used || size > AREA_BYTES)
		return 0;
	if (work->payload != size) {
		if (bpf_skb_change_tail(skb, DATA + size, 0))
			return 0;
		work->payload = size;
		work->held = 0;
	}
	if (size && work->held != area) {
		struct area *from = area_of(work, area - 1);

		if (!from || size < 8 || bpf_skb_store_bytes(skb, DATA, from, size, 0))
			return 0;
		work->held = area;
	}
	header->data = area ? work->bytes : 0;
	header->from = header->to;
	header->to = peer->rank;
	if (!seal(skb, header, size, &header->tag))
		return 0;
	address(&frame, job->mac, job->address, peer->mac, peer->address, bpf_htons(PORT), size,
		header->purpose == ASK ? work->hops : HOPS);
	if (bpf_skb_store_bytes(skb, 0, frame.to, FRAME, 0) || bpf_skb_store_bytes(skb, FRAME, header, HEADER, 0))
		return 0;
	header->to = header->from;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	count(EMITTED);
	return 0;
}

static __always_inline struct rule *rule_of(struct work *work, u32 number)
{
	u32 key = (work->slot * PROGRAMS + work->program) * RULES + number;

	return number < RULES ? bpf_map_lookup_elem(&rules, &key) : 0;
}

static __always_inline struct event *event_of(struct work *work, u32 number)
{
	u32 key = (work->slot * PROGRAMS + work->program) * EVENTS + number;

	return number < EVENTS ? bpf_map_lookup_elem(&events, &key) : 0;
}

// Does what can be done now; 1 if the operation is over for the own rank.
static __always_inline int fire(struct __sk_buff *skb, struct work *work, struct header *header, struct record *record)
{
	int is_over = 0;

	for (u32 number = 0; number < RULES; number++) {
		struct rule *rule = rule_of(work, number);

		if (!rule || rule->action == END)
			break;
		if (record->fired >> number & 1 || rule->needs & ~record->arrived)
			continue;
		record->fired |= 1u << number;
		if (rule->action == COMBINE) {
			combine(work, record->operator, rule->a, rule->b, rule->c);
		} else if (rule->action == EMIT) {
			header->purpose = MESSAGE;
			header->index = rule->b;
			emit(skb, work, header, rule->a, rule->c);
		} else {
			// Whoever sleeps has said so before it looked for the last time.
			__sync_lock_test_and_set(&record->done, work->sequence);
			count(COMPLETED);
			is_over = record->wake == work->sequence;
		}
	}
	return is_over;
}

static __always_inline u32 operation_of(struct record *record)
{
	return record->program | record->operator << 8 | (u32)record->bytes << 16;
}

static __always_inline int arrive(struct __sk_buff *skb, struct work *work, struct header *header,
				  struct record *record, struct event *event, u32 number)
{
	if (record->sequence > work->sequence) {
		count(STALE);
		return 0;
	}
	if (record->sequence < work->sequence) {
		record->program = header->program;
		record->operator = header->operator;
		record->bytes = header->bytes;
		record->arrived = 0;
		record->fired = 0;
		record->heard = 0;
		__sync_lock_test_and_set(&record->sequence, work->sequence);
	} else if (operation_of(record) != work->operation) {
		record->disputed = work->sequence;
		count(DISAGREEMENT);
		return 0;
	}
	if (record->arrived >> number & 1) {
		count(AGAIN);
		return 0;
	}
	u32 size = work->payload;

	if (event->area && size) {
		struct area *into = area_of(work, event->area - 1);

		if (into && size >= 8 && size <= AREA_BYTES && !bpf_skb_load_bytes(skb, DATA, into, size))
			work->held = event->area;
	}
	record->arrived |= 1u << number;
	count(TAKEN);
	return fire(skb, work, header, record);
}

// Who asks for what this host waits for itself is told that it is there, and how that message is called.
static __always_inline void reassure(struct __sk_buff *skb, struct work *work, struct header *header,
				     struct rule *rule)
{
	header->purpose = ALIVE;
	header->index = rule->b;
	emit(skb, work, header, rule->a, 0);
}

static __always_inline void answer(struct __sk_buff *skb, struct work *work, struct header *header,
				   struct record *record, struct rule *rule, u32 number)
{
	u32 arrived = 0, fired = 0;

	if (record->sequence > work->sequence) {
		count(STALE);
		return;
	}
	if (record->sequence == work->sequence) {
		if (operation_of(record) != work->operation) {
			count(DISAGREEMENT);
			return;
		}
		arrived = record->arrived;
		fired = record->fired;
	}
	if (fired >> number & 1) {
		count(TAKEN);
		header->purpose = MESSAGE;
		header->index = rule->b;
		emit(skb, work, header, rule->a, rule->c);
		return;
	}
	u32 missing = rule->needs & ~arrived;

	if (missing & 1 || !missing) {
		count(WAITS);
		reassure(skb, work, header, rule);
		return;
	}
	u32 lost = 1;

	for (; lost < EVENTS - 1; lost++)
		if (missing >> lost & 1)
			break;
	struct event *event = event_of(work, lost);

	if (!event)
		return;
	count(TAKEN);
	if (work->hops) {
		header->index = event->rule;
		emit(skb, work, header, event->peer, 0);
	}
	reassure(skb, work, header, rule);
}

static __always_inline int lock(struct record *record)
{
	for (int look = 0; look < LOOKS; look++)
		if (__sync_val_compare_and_swap(&record->lock, 0, 1) == 0)
			return 1;
	count(BUSY);
	return 0;
}

// The packet that completed an operation goes on to its rank, which sleeps.
static __always_inline int wake(struct __sk_buff *skb, struct work *work)
{
	u32 zero = 0, key = work->slot * PEERS;
	struct job *job = bpf_map_lookup_elem(&jobs, &zero);
	struct peer *peer = bpf_map_lookup_elem(&peers, &key);
	struct frame frame = {};

	if (!job || !peer)
		return TC_ACT_SHOT;
	// As from somebody else: what a host gets from its own address it takes for forged.
	address(&frame, peer->mac, peer->address, job->mac, job->address, job->wake_port, work->payload, HOPS);
	return bpf_skb_store_bytes(skb, 0, frame.to, FRAME, 0) ? TC_ACT_SHOT : TC_ACT_OK;
}

static __always_inline int find_group(struct work *work, struct header *header)
{
	for (u32 slot = 0; slot < GROUPS; slot++) {
		struct group *group = bpf_map_lookup_elem(&groups, &slot);

		if (group && group->is_used && group->id == header->group && group->rank == header->to) {
			work->slot = slot;
			return 1;
		}
	}
	return 0;
}

static __always_inline int run(struct __sk_buff *skb, int is_egress)
{
	struct frame frame = {};
	struct header header;
	struct work work = {};
	u32 zero = 0;
	struct tag tag;

	if (skb->len < DATA || bpf_skb_load_bytes(skb, 0, frame.to, FRAME))
		return TC_ACT_UNSPEC;
	if (frame.protocol != bpf_htons(0x0800) || frame.version != 0x45 || frame.kind != 17 ||
	    frame.port != bpf_htons(PORT) || frame.fragment & bpf_htons(0x3fff))
		return TC_ACT_UNSPEC;
	struct job *job = bpf_map_lookup_elem(&jobs, &zero);

	if (!job || bpf_skb_load_bytes(skb, FRAME, &header, HEADER) || header.magic != MAGIC ||
	    header.job != job->number)
		return TC_ACT_UNSPEC;
	if (is_egress != (header.purpose == ENTER)) {
		if (is_egress)
			return TC_ACT_UNSPEC;
		count(FOREIGN);
		return TC_ACT_SHOT;
	}
	if (!find_group(&work, &header)) {
		count(FOREIGN);
		return TC_ACT_SHOT;
	}
	work.bytes = header.bytes;
	work.payload = (header.data + 7) & ~7u;
	work.sequence = header.sequence;
	work.channel = header.sequence % CHANNELS;
	work.program = header.program;
	work.operation = header.program | header.operator << 8 | (u32)header.bytes << 16;
	if (header.bytes > AREA_BYTES || (header.operator && header.bytes > 8 * OPERANDS) || header.data > header.bytes ||
	    skb->len != DATA + work.payload || header.program >= PROGRAMS || header.operator > MAX_I64 ||
	    !header.sequence) {
		count(MALFORMED);
		return TC_ACT_SHOT;
	}
	if (!seal(skb, &header, work.payload, &tag) ||
	    ((tag.words[0] ^ header.tag.words[0]) | (tag.words[1] ^ header.tag.words[1]))) {
		count(FORGED);
		return TC_ACT_SHOT;
	}
	u32 key = work.slot * CHANNELS + work.channel, number = header.index;
	struct record *record = bpf_map_lookup_elem(&records, &key);
	struct event *event = event_of(&work, number);
	struct rule *rule = rule_of(&work, number);

	if (!record || !event || !rule)
		goto malformed;
	if (header.purpose == ASK) {
		u32 place = work.slot * PEERS + rule->a;
		struct peer *peer = rule->a < PEERS ? bpf_map_lookup_elem(&peers, &place) : 0;

		if (header.data || rule->action != EMIT || !peer || !peer->is_used || peer->rank != header.from)
			goto malformed;
		// A question carries how many may follow from it where other packets carry what IP wants there.
		work.hops = frame.hops < HOPS ? frame.hops : HOPS;
		work.hops = work.hops ? work.hops - 1 : 0;
		if (lock(record)) {
			answer(skb, &work, &header, record, rule, number);
			__sync_lock_test_and_set(&record->lock, 0);
		}
		return TC_ACT_SHOT;
	}
	if (header.purpose == ALIVE) {
		if (!number || !event->is_used || event->rank != header.from || header.data)
			goto malformed;
		if (record->sequence != header.sequence) {
			count(STALE);
		} else if (lock(record)) {
			record->heard |= 1u << number;
			count(TAKEN);
			__sync_lock_test_and_set(&record->lock, 0);
		}
		return TC_ACT_SHOT;
	}
	if ((header.purpose != ENTER && header.purpose != MESSAGE) || (number == 0) != (header.purpose == ENTER) ||
	    !event->is_used || event->rank != header.from || header.data != (event->area ? header.bytes : 0))
		goto malformed;
	if (!lock(record))
		return TC_ACT_SHOT;
	int is_over = arrive(skb, &work, &header, record, event, number);

	__sync_lock_test_and_set(&record->lock, 0);
	return is_over && !is_egress ? wake(skb, &work) : TC_ACT_SHOT;

malformed:
	count(MALFORMED);
	return TC_ACT_SHOT;
}

SEC("classifier")
int tutti_ingress(struct __sk_buff *skb)
{
	return run(skb, 0);
}

SEC("classifier")
int tutti_egress(struct __sk_buff *skb)
{
	return run(skb, 1);
}
