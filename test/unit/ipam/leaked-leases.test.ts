/** When a lease whose container seems to be gone is taken back. */
import { beforeEach, describe, expect, test } from "@jest/globals";
import { LeakedLeases } from "../../../src/ipam/leaked-leases.ts";
import type { LeaseOwner } from "../../../src/ipam/lease-store.ts";

let leaked: LeakedLeases;

beforeEach(() => {
  leaked = new LeakedLeases();
});

function owners(count: number, prefix = "c"): LeaseOwner[] {
  return Array.from({ length: count }, (_, index) => owner(`${prefix}${index}`));
}

function owner(containerId: string, interfaceName = "eth0"): LeaseOwner {
  return { network: "pods", containerId, interfaceName };
}

test("a lease is taken back when two looks in a row suspect it", () => {
  const suspects = owners(2);
  expect(leaked.confirm({ suspects, leases: 10 })).toEqual([]);
  expect(leaked.confirm({ suspects, leases: 10 })).toEqual(suspects);
});

test("a look that does not suspect it begins anew", () => {
  const suspects = [owner("c1")];
  leaked.confirm({ suspects, leases: 10 });
  leaked.confirm({ suspects: [], leases: 10 });
  expect(leaked.confirm({ suspects, leases: 10 })).toEqual([]);
});

test("another interface of the container and another network are others", () => {
  leaked.confirm({ suspects: [owner("c1")], leases: 10 });
  const others = [owner("c1", "eth1"), { ...owner("c1"), network: "other" }];
  expect(leaked.confirm({ suspects: others, leases: 10 })).toEqual([]);
});

describe("so many at once", () => {
  const believed: readonly [suspects: number, leases: number][] = [
    [5, 5],
    [5, 6],
    [6, 60],
    [25, 250],
  ];

  test.each(believed)("%d of %d are believed", (count, leases) => {
    const suspects = owners(count);
    leaked.confirm({ suspects, leases });
    expect(leaked.confirm({ suspects, leases })).toHaveLength(count);
  });

  const doubted: readonly [suspects: number, leases: number][] = [
    [6, 6],
    [6, 59],
    [26, 250],
  ];

  test.each(doubted)("%d of %d are not, and none is taken back", (count, leases) => {
    const suspects = owners(count);
    leaked.confirm({ suspects, leases });
    expect(() => leaked.confirm({ suspects, leases })).toThrow(
      `Cannot take back ${count} of ${leases} leases whose containers seem to be gone: allowed are 5 or 10 % at once, since so many may be a mistake; have the runtime call GC, or remove their files`,
    );
  });

  test("are no condition as long as one look alone has seen them", () => {
    leaked.confirm({ suspects: owners(2), leases: 20 });
    expect(leaked.confirm({ suspects: owners(8, "d"), leases: 20 })).toEqual([]);
  });

  test("count those too that the look before has not seen", () => {
    leaked.confirm({ suspects: owners(5), leases: 20 });
    expect(() => leaked.confirm({ suspects: owners(6), leases: 20 })).toThrow("6 of 20");
  });
});
