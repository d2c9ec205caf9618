/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* The maps of the host-net guard. All are pinned by user space (src/guard/pins.ts) and outlive it. */
#ifndef CNI_IPIP_HOST_NET_GUARD_MAPS_H
#define CNI_IPIP_HOST_NET_GUARD_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "shared.h"

/* Sizes are upper bounds, not reservations: nothing is allocated before an entry is added. */
#define MEMBERS_EXACT_LIMIT 131072
#define MEMBERS_CIDR_LIMIT 16384
#define LOCALS_LIMIT 65536 /* kube-ipvs0 alone carries thousands */
#define OTHER_TUNNELS_LIMIT 4096

/* Single addresses of the other nodes, so that the common lookup is one hash. Key: network order; value: 0, unused.
 * Writer: HostNetSet (src/ipset/host-net-set.ts). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMBERS_EXACT_LIMIT);
	__type(key, __be32);
	__type(value, __u32);
} members_exact SEC(".maps");

/* Networks whose every address is a valid outer source (externalNodeCidrs). Value: 0, unused.
 * Writer: HostNetSet (src/ipset/host-net-set.ts). */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMBERS_CIDR_LIMIT);
	__type(key, struct cidr);
	__type(value, __u32);
} members_cidr SEC(".maps");

/* Addresses this node is known to have, besides what bpf_fib_lookup says. Key: network order; value: 0, unused.
 * Writer: HostNetGuard.setLocals (src/guard/guard.ts). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, LOCALS_LIMIT);
	__type(key, __be32);
	__type(value, __u32);
} locals SEC(".maps");

/* Exact pairs of the owner's other ipip devices that are up. Value: 0, unused.
 * Writer: HostNetGuard.setOtherTunnels (src/guard/guard.ts). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, OTHER_TUNNELS_LIMIT);
	__type(key, struct tunnel_pair);
	__type(value, __u32);
} other_tunnels SEC(".maps");

/* One entry. Writer: HostNetGuard.setMode (src/guard/guard.ts). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct guard_config);
} guard_config SEC(".maps");

/* Index: enum verdict. Writer: the guard's programs; user space only reads. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_LIMIT);
	__type(key, __u32);
	__type(value, struct verdict_counter);
} verdicts SEC(".maps");

#endif
