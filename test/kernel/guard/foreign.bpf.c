// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* Programs of somebody else, on the hooks that the guard wants: they let everything pass. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int foreign_tc(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

SEC("xdp")
int foreign_xdp(struct xdp_md *xdp)
{
	return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
