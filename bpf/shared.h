/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/*
 * What the guards and their user space share: keys and values of the maps, verdict numbers.
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

/* Why a packet that a pod sent was dropped; the index into `drops` of struct pod_link. Numbers are never reused. */
enum pod_drop {
	POD_DROP_IPIP = 0, /* protocol 4, which could forge a node, or an ICMP error about it */
	POD_DROP_IPV6 = 1,
	POD_DROP_OTHER_ETHERTYPE = 2, /* neither ARP nor IPv4 nor IPv6, or in a VLAN */
	POD_DROP_MALFORMED = 3, /* no whole IPv4 header, or no whole ARP packet for IPv4 on Ethernet */
	POD_DROP_UNSPECIFIED_SOURCE = 4, /* 0.0.0.0 */
	POD_DROP_SPOOFED_SOURCE = 5, /* neither the container's nor allowed */
	POD_DROP_SPOOFED_ARP = 6, /* the same of an ARP packet's sender */
	POD_DROP_LOOPBACK = 7, /* to or from 127.0.0.0/8 */
};

#define POD_DROP_LIMIT 8

/* Bits of pod_link.flags */
enum pod_flag {
	POD_FLAG_ALLOW_IPIP = 1,
	POD_FLAG_ALLOW_IPV6 = 2,
	POD_FLAG_SILENT = 4, /* the pod is being taken down: nothing passes */
};

#define POD_ADDRESSES_LIMIT 8
#define ALLOWED_SOURCES_LIMIT 16

struct allowed_source {
	__be32 network; /* network order */
	__be32 mask; /* network order */
};
_Static_assert(sizeof(struct allowed_source) == 8, "no hidden padding in allowed_source");

/* The host's end of a pod's veth pair. */
struct pod_link {
	__u64 container; /* the first 8 bytes of SHA-256 of the container's id, as they come */
	__be32 addresses[POD_ADDRESSES_LIMIT]; /* network order; 0 in what is not used */
	__u32 flags; /* host order, bits of enum pod_flag */
	__u32 allowed_count; /* host order */
	struct allowed_source allowed[ALLOWED_SOURCES_LIMIT];
	struct verdict_counter drops[POD_DROP_LIMIT]; /* not by CPU: a pod's packets mostly come in on one */
};
_Static_assert(sizeof(struct pod_link) == 304, "no hidden padding in pod_link");

struct container_address {
	__u64 container; /* as in struct pod_link */
	__be32 address; /* network order */
	__u32 unused; /* 0 */
};
_Static_assert(sizeof(struct container_address) == 16, "no hidden padding in container_address");

#endif
