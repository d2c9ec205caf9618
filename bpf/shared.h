/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What the host-net guard and its user space share: keys and values of the maps, verdict numbers.
 * Mirror: src/guard/layout.ts. A test compares the two through the object's BTF.
 */
#ifndef CNI_IPIP_SHARED_H
#define CNI_IPIP_SHARED_H

#include <linux/types.h>

/*
 * Why a packet with protocol 4 passed or was dropped; the index into the map `verdicts`.
 * The number tells the action: below VERDICT_FIRST_DROP pass, below VERDICT_FIRST_OBSERVED drop, from there on
 * a drop that mode observe let pass. Numbers are never reused; at most 8 in each of the three ranges.
 */
enum verdict {
	VERDICT_MEMBER = 0, /* the outer source is a node */
	VERDICT_OTHER_TUNNEL = 1, /* the pair of another ipip device of the owner */
	VERDICT_TRANSIT = 2, /* neither from a node nor for this one nor for a node */

	VERDICT_MALFORMED = 8, /* the outer header lies, or a node's packet shows no inner IPv4 header */
	VERDICT_NESTED = 9, /* a node's packet that tunl0 would unwrap twice */
	VERDICT_NOT_MEMBER = 10, /* for this node, not from a node */
	VERDICT_FORGED_TRANSIT = 11, /* for another node, which would see this one's address after masquerading */

	VERDICT_OBSERVED_MALFORMED = 16,
	VERDICT_OBSERVED_NESTED = 17,
	VERDICT_OBSERVED_NOT_MEMBER = 18,
	VERDICT_OBSERVED_FORGED_TRANSIT = 19,
};

#define VERDICT_FIRST_DROP 8
#define VERDICT_FIRST_OBSERVED 16
#define VERDICT_LIMIT 24

/* Zero is the mode of a map that nobody has written yet: it must be the one that drops. */
enum guard_mode {
	GUARD_MODE_ENFORCE = 0,
	GUARD_MODE_OBSERVE = 1,
};

struct guard_config {
	enum guard_mode mode; /* host order */
};
_Static_assert(sizeof(struct guard_config) == 4, "no hidden padding in guard_config");

/* Key of an LPM trie: the kernel wants the prefix length first and the address as it is on the wire. */
struct cidr {
	__u32 prefix_length; /* host order, bits */
	__be32 address; /* network order */
};
_Static_assert(sizeof(struct cidr) == 8, "no hidden padding in cidr");

/* The two outer addresses of an ipip device, seen from this node. */
struct tunnel_pair {
	__be32 local; /* network order */
	__be32 remote; /* network order */
};
_Static_assert(sizeof(struct tunnel_pair) == 8, "no hidden padding in tunnel_pair");

/* Counts since the map was made, one for each CPU. */
struct verdict_counter {
	__u64 packets; /* host order */
	__u64 bytes; /* host order; whole frames as the hook sees them: a VLAN tag in metadata is not counted */
};
_Static_assert(sizeof(struct verdict_counter) == 16, "no hidden padding in verdict_counter");

#endif
