import { ClusterWorld } from "../../../lib/api-server/cluster-world.ts";
import { describeDatastore } from "../../../lib/datastore-contract.ts";

describeDatastore("kubernetes", ClusterWorld.make);
