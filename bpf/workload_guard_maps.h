/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0 */
/* The maps of the workload guard, pinned like those of the host-net guard. Writer: src/guard/workload-guard.ts. */
#ifndef CNI_IPIP_WORKLOAD_GUARD_MAPS_H
#define CNI_IPIP_WORKLOAD_GUARD_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "shared.h"

/* Upper bounds, not reservations. */
#define POD_LINKS_LIMIT 16384
#define CONTAINER_ADDRESSES_LIMIT 32768

/* Key: ifindex of the host's end, host order. All that the common packet needs is in this one value. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, POD_LINKS_LIMIT);
	__type(key, __u32);
	__type(value, struct pod_link);
} pod_links SEC(".maps");

/* A container may send from the address of any of its links: which link has the address (ifindex, host order). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CONTAINER_ADDRESSES_LIMIT);
	__type(key, struct container_address);
	__type(value, __u32);
} container_addresses SEC(".maps");

#endif
