import { CniError, parseResult } from "@containernetworking/cni-types-ts";
import { expect, test } from "@jest/globals";
import { type Given, givenBy } from "../../../cni/given.ts";

const taken = {
  tunnelAddress: "10.100.15.128",
  nodeAddresses: ["127.0.0.1", "172.31.1.1", "fe80::1", "10.100.15.128"],
};

function given(addresses: readonly string[], routes: readonly string[] = []): Given {
  const ips = addresses.map((address) => ({ address }));
  return givenBy("other", parseResult({ ips, routes: routes.map((dst) => ({ dst })) }), taken);
}

function refusal(addresses: readonly string[], routes: readonly string[] = []): object {
  try {
    return given(addresses, routes);
  } catch (error) {
    expect(error).toBeInstanceOf(CniError);
    const { code, message } = error as CniError;
    return { code, message };
  }
}

const prefix = 'Cannot use what the IPAM plugin "other" gave: ';

test.each([
  ["0.0.0.0/0", "0.0.0.0, allowed are addresses outside 0.0.0.0/8"],
  ["0.255.255.255/32", "0.255.255.255, allowed are addresses outside 0.0.0.0/8"],
  ["127.0.0.2/8", "127.0.0.2, allowed are addresses outside 127.0.0.0/8"],
  ["127.0.0.1/8", "127.0.0.1, which is this node's own, allowed is any other address"],
  ["169.254.1.1/32", "169.254.1.1, allowed are addresses outside 169.254.0.0/16"],
  ["169.254.255.255/16", "169.254.255.255, allowed are addresses outside 169.254.0.0/16"],
  ["224.0.0.0/32", "224.0.0.0, allowed are addresses outside 224.0.0.0/4"],
  ["239.255.255.255/32", "239.255.255.255, allowed are addresses outside 224.0.0.0/4"],
  ["255.255.255.255/32", "255.255.255.255, allowed are addresses outside 255.255.255.255/32"],
  ["172.31.1.1/24", "172.31.1.1, which is this node's own, allowed is any other address"],
  ["10.100.15.128/32", "10.100.15.128, which is the tunnel's on this node, allowed is any other address"],
  ["fe80::1/64", '"fe80::1", allowed is IPv4, the network has no IPv6'],
  ["::ffff:10.1.2.3/128", '"::ffff:10.1.2.3", allowed is IPv4, the network has no IPv6'],
])("the address %s of another IPAM is refused, alone and behind a good one", (address, problem) => {
  const refused = { code: 7, message: `${prefix}${problem}` };
  expect(refusal([address])).toEqual(refused);
  expect(refusal(["10.1.2.3/24", address])).toEqual(refused);
});

test.each([
  "1.0.0.0/32",
  "126.255.255.255/8",
  "128.0.0.0/8",
  "169.253.255.255/16",
  "169.255.0.0/16",
  "223.255.255.255/32",
])("the address %s of another IPAM is taken: it is just outside", (address) => {
  expect(given([address]).addresses).toEqual([address.split("/")[0]]);
});

test.each([
  ["0.0.0.0/8", "0.0.0.0/8"],
  ["0.1.0.0/16", "0.0.0.0/8"],
  ["127.0.0.1/32", "127.0.0.0/8"],
  ["169.254.1.1/32", "169.254.1.1/32"],
  ["224.0.0.0/4", "224.0.0.0/4"],
  ["239.1.2.3/32", "224.0.0.0/4"],
  ["255.255.255.255/32", "255.255.255.255/32"],
])("the route %s of another IPAM is refused", (route, range) => {
  expect(refusal(["10.1.2.3/24"], ["0.0.0.0/0", route])).toEqual({
    code: 7,
    message: `${prefix}a route to ${route}, allowed are destinations outside ${range}`,
  });
});

test("an IPAM that gives nothing is refused", () => {
  expect(refusal([])).toEqual({ code: 7, message: `${prefix}no address, needed is at least one of IPv4` });
});

test("an address or a route that comes twice counts once, a route by its network, in the order of the answer", () => {
  const addresses = ["10.1.2.4/24", "10.1.2.3/24", "10.1.2.4/32", "10.1.2.3/24"];
  const routes = ["10.1.2.3/8", "0.0.0.0/0", "10.0.0.0/8", "255.255.255.255/0", "169.254.169.254/32", "10.0.0.0/9"];
  expect(given(addresses, routes)).toEqual({
    addresses: ["10.1.2.4", "10.1.2.3"],
    routes: ["10.0.0.0/8", "0.0.0.0/0", "169.254.169.254/32", "10.0.0.0/9"],
  });
});

test("without a route the interface is the way out", () => {
  expect(given(["10.1.2.3/24"]).routes).toEqual(["0.0.0.0/0"]);
});
