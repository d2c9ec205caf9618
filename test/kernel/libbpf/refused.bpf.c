// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0
/* A program that the verifier refuses: it reads a packet without asking where the packet ends. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int unchecked(struct xdp_md *xdp)
{
	return *(char *)(long)xdp->data;
}

char _license[] SEC("license") = "Dual BSD/GPL";
