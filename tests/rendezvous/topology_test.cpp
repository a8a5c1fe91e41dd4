#include "backends/rendezvous/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "libzero/base/error.h"

namespace zero {
namespace {

using Values = std::map<std::string, std::string>;
using testing::HasSubstr;
using testing::Not;

Topology resolve(const Values& values) {
  return topology_from([&](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const Values& values) {
  try {
    resolve(values);
  } catch (const ContractError& error) {
    return error.what();
  }
  return "(accepted)";
}

Values with(Values values, const Values& changes) {
  for (const auto& [name, value] : changes) values[name] = value;
  return values;
}

Values without(Values values, const std::string& name) {
  values.erase(name);
  return values;
}

const Values kTorchrun = {{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "head"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "job7"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Values kZeroRun =
    with(kTorchrun, {{"ZERO_STORE", "127.0.0.1:4242"}, {"ZERO_SECRET", "s3cret"}});
const Values kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                         {"MASTER_ADDR", "head"},
                         {"MASTER_PORT", "6000"}};
const Values kSlurm = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "3"}, {"SLURM_NTASKS_PER_NODE", "4(x2)"},
                       {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "12345678"},
                       {"SLURM_NODEID", "0"},  {"SLURM_STEP_NODELIST", "node[01-03,7]"}};

TEST(Topology, NothingSetMeansAlone) {
  const Topology t = resolve({});
  EXPECT_EQ(t.launcher, "alone");
  EXPECT_EQ(t.rank, 0);
  EXPECT_EQ(t.size, 1);
  EXPECT_FALSE(t.serves_store);
}

TEST(Topology, ZeroRunWinsAndTheLauncherServesTheStore) {
  const Topology t = resolve(kZeroRun);
  EXPECT_EQ(t.launcher, "zero run");
  EXPECT_EQ(t.rank, 5);
  EXPECT_EQ(t.size, 8);
  EXPECT_EQ(t.local_rank, 1);
  EXPECT_EQ(t.local_size, 4);
  EXPECT_EQ(t.store_host, "127.0.0.1");
  EXPECT_EQ(t.store_port, 4242);
  EXPECT_EQ(t.secret, "s3cret");
  EXPECT_EQ(t.run_id, "job7");
  EXPECT_EQ(t.restart_count, 2);
  EXPECT_FALSE(resolve(with(kZeroRun, {{"RANK", "0"}})).serves_store);
}

TEST(Topology, TorchrunsRankZeroServesOnThePortAfterMasterPort) {
  const Topology t = resolve(with(kTorchrun, {{"RANK", "0"}}));
  EXPECT_EQ(t.launcher, "torchrun");
  EXPECT_TRUE(t.serves_store);
  EXPECT_EQ(t.store_host, "head");
  EXPECT_EQ(t.store_port, 29501);
  EXPECT_FALSE(resolve(kTorchrun).serves_store);
  EXPECT_EQ(resolve(with(kTorchrun, {{"ZERO_PORT", "7"}})).store_port, 7);
}

TEST(Topology, AMasterPortWithoutAPortAfterItAsksForZeroPort) {
  const Values last = with(kTorchrun, {{"MASTER_PORT", "65535"}});
  EXPECT_THAT(refusal(last), HasSubstr("set ZERO_PORT"));
  EXPECT_EQ(resolve(with(last, {{"ZERO_PORT", "9000"}})).store_port, 9000);
}

TEST(Topology, RanksOfOneRunDeriveOneSecretAndOtherRunsAnother) {
  const std::string secret = resolve(kTorchrun).secret;
  EXPECT_FALSE(secret.empty());
  EXPECT_EQ(resolve(with(kTorchrun, {{"RANK", "1"}})).secret, secret);
  EXPECT_NE(resolve(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "job8"}})).secret, secret);
  EXPECT_EQ(resolve(with(kTorchrun, {{"ZERO_SECRET", "mine"}})).secret, "mine");
}

TEST(Topology, OpenMpiNeedsAMeetingPoint) {
  const Topology t = resolve(kOpenMpi);
  EXPECT_EQ(t.launcher, "Open MPI");
  EXPECT_TRUE(t.serves_store);
  EXPECT_EQ(t.store_port, 6001);
  EXPECT_EQ(resolve(without(with(kOpenMpi, {{"ZERO_PORT", "9"}}), "MASTER_PORT")).store_port, 9);
  EXPECT_THAT(refusal(without(kOpenMpi, "MASTER_ADDR")), HasSubstr("missing"));
  EXPECT_THAT(refusal(without(kOpenMpi, "MASTER_PORT")), HasSubstr("MASTER_PORT or ZERO_PORT"));
}

TEST(Topology, SlurmTakesItsFirstHostAndAPortFromTheJob) {
  const Topology t = resolve(kSlurm);
  EXPECT_EQ(t.launcher, "Slurm");
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.size, 8);
  EXPECT_EQ(t.local_rank, 3);
  EXPECT_EQ(t.local_size, 4);
  EXPECT_EQ(t.store_host, "node01");
  EXPECT_EQ(t.store_port, 15000 + 12345678 % 15000);
  EXPECT_EQ(t.run_id, "12345678.0");
  EXPECT_FALSE(t.serves_store);
  EXPECT_TRUE(resolve(with(kSlurm, {{"SLURM_PROCID", "0"}})).serves_store);
  EXPECT_NE(resolve(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).store_port, t.store_port);
  EXPECT_EQ(resolve(with(kSlurm, {{"MASTER_ADDR", "other"}, {"MASTER_PORT", "5"}})).store_host,
            "other");
  EXPECT_EQ(resolve(with(kSlurm, {{"MASTER_PORT", "5"}})).store_port, 6);
}

TEST(Topology, SbatchWithoutSrunIsAlone) {
  EXPECT_EQ(resolve(without(kSlurm, "SLURM_STEP_ID")).launcher, "alone");
  EXPECT_EQ(resolve(without(kSlurm, "SLURM_PROCID")).launcher, "alone");
}

TEST(Topology, TorchrunAndOpenMpiInsideSlurmWin) {
  EXPECT_EQ(resolve(with(kSlurm, kTorchrun)).launcher, "torchrun");
  EXPECT_EQ(resolve(with(kSlurm, kOpenMpi)).launcher, "Open MPI");
  EXPECT_EQ(resolve(with(kOpenMpi, kTorchrun)).launcher, "torchrun");
}

TEST(Topology, SlurmHostListsGiveTheirFirstHost) {
  const std::pair<const char*, const char*> table[] = {{"node", "node"},
                                                       {"a,b", "a"},
                                                       {"n[1]", "n1"},
                                                       {"n[007-010]", "n007"},
                                                       {"n[7,9-12],x", "n7"},
                                                       {"r[1-2]n[03-04]-ib", "r1n03-ib"},
                                                       {"a-b[2-3].site", "a-b2.site"}};
  for (const auto& [list, host] : table) {
    EXPECT_EQ(resolve(with(kSlurm, {{"SLURM_STEP_NODELIST", list}})).store_host, host) << list;
  }
  for (const char* bad : {"", "n[1", "n[]", "n1]", ",a", "n[,2]"}) {
    EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_NODELIST", bad}})), HasSubstr("Slurm")) << bad;
  }
}

TEST(Topology, SlurmTasksPerNodeAreReadForThisNode) {
  const std::tuple<const char*, const char*, int> table[] = {
      {"4", "1", 4}, {"4(x2)", "1", 4}, {"3(x2),2", "0", 3}, {"3(x2),2", "2", 2}, {"5,3", "1", 3}};
  for (const auto& [list, node, tasks] : table) {
    const Values values = with(
        kSlurm, {{"SLURM_NTASKS_PER_NODE", list}, {"SLURM_NODEID", node}, {"SLURM_LOCALID", "0"}});
    EXPECT_EQ(resolve(values).local_size, tasks) << list << " at " << node;
  }
  for (const char* bad : {"", "x", "0", "-1", "4(x2", "4(x)", "4(x0)", "4,", "4x2"}) {
    EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NTASKS_PER_NODE", bad}})), HasSubstr("Slurm")) << bad;
  }
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NTASKS_PER_NODE", "5,3"}, {"SLURM_NODEID", "2"}})),
              HasSubstr("SLURM_NODEID"));
}

TEST(Topology, ASmallerStepInsideABiggerSlurmJobIsNoContradiction) {
  const Topology t =
      resolve(with(kSlurm, {{"SLURM_NTASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_EQ(t.local_size, 1);
}

TEST(Topology, EveryMissingVariableIsNamedAndWhatWasSeenIsListed) {
  const std::pair<Values, std::vector<std::string>> table[] = {
      {kZeroRun, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "ZERO_SECRET"}},
      {kTorchrun,
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}},
      {kOpenMpi,
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", "MASTER_ADDR"}},
      {kSlurm,
       {"SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_STEP_NODELIST",
        "SLURM_NTASKS_PER_NODE"}}};
  for (const auto& [values, names] : table) {
    for (const std::string& name : names) {
      const std::string text = refusal(without(values, name));
      const std::size_t seen = text.find("Seen: ");
      ASSERT_NE(seen, std::string::npos) << name << ": " << text;
      EXPECT_THAT(text.substr(0, seen), HasSubstr(name));
      EXPECT_THAT(text.substr(seen), HasSubstr("="));
    }
  }
}

TEST(Topology, GarbageIsRefusedWithItsName) {
  for (const char* bad : {"", " 1", "1 ", "-1", "x", "1.0", "99999999999", "0x1"}) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT",
                             "TORCHELASTIC_RESTART_COUNT", "ZERO_PORT"}) {
      EXPECT_THAT(refusal(with(kTorchrun, {{name, bad}})), HasSubstr(name)) << "'" << bad << "'";
    }
  }
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_ADDR", ""}})), HasSubstr("MASTER_ADDR is empty"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65536"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"ZERO_SECRET", ""}})), HasSubstr("ZERO_SECRET"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", ""}})),
              HasSubstr("TORCHELASTIC_RUN_ID is empty"));
  for (const char* bad : {"", "host", ":1", "host:", "host:x", "host:0", "host:65536"}) {
    EXPECT_THAT(refusal(with(kZeroRun, {{"ZERO_STORE", bad}})), HasSubstr("ZERO_STORE")) << bad;
  }
}

TEST(Topology, ContradictionsAreRefused) {
  EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", "8"}})), HasSubstr("the rank must be below"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "4"}})),
              HasSubstr("the local rank must be below"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}})),
              HasSubstr("the local world size"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE"));
}

TEST(Topology, TheSecretNeverReachesAnErrorMessage) {
  const std::string text = refusal(with(kZeroRun, {{"WORLD_SIZE", "0"}}));
  EXPECT_THAT(text, Not(HasSubstr("s3cret")));
  EXPECT_THAT(refusal(without(kZeroRun, "RANK")), Not(HasSubstr("s3cret")));
}

}  // namespace
}  // namespace zero
