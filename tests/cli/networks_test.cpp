// Processes on several machines, which talk TCP: each is in a network of its own, and all are joined by a bridge.
#include "cli/processes.h"

namespace transformer::test {
namespace {

class Networks : public Processes {
 protected:
  static constexpr int machines = 3;

  void SetUp() override {
    Processes::SetUp();
    if (IsSkipped()) return;
    if (std::system("ip netns list > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no 'ip' that knows network namespaces";
    write("up", R"(set -e
for i in $(seq 0 $((COUNT - 1))); do ip netns add $NAME$i; ip -n $NAME$i link set lo up; done
ip -n ${NAME}0 link add bridge type bridge
ip -n ${NAME}0 address add 10.77.0.1/24 dev bridge
ip -n ${NAME}0 link set bridge up
for i in $(seq 1 $((COUNT - 1))); do
  ip -n ${NAME}0 link add to$i type veth peer name wire netns $NAME$i
  ip -n ${NAME}0 link set to$i master bridge up
  ip -n $NAME$i address add 10.77.0.$((i + 1))/24 dev wire
  ip -n $NAME$i link set wire up
done
)");
    // As mpirun would use ssh: the machine, then the command. Machines have files of their own, where mpirun's are.
    write("agent",
          fmt::format("#!/bin/sh\nmachine=$((${{1##*.}} - 1)); shift\nexport TMPDIR='{}'/$machine\n"
                      "exec ip netns exec {}$machine sh -c \"$*\"\n",
                      folder_.path().string(), name_));
    for (int i = 0; i < machines; ++i) std::filesystem::create_directory(folder_ / std::to_string(i));
    std::filesystem::permissions(folder_ / "agent", std::filesystem::perms::owner_all);
    if (shell(fmt::format("NAME={} COUNT={} sh up 2> up.log", name_, machines)) != 0)
      GTEST_SKIP() << "network namespaces cannot be made here: " << read("up.log");
  }
  void TearDown() override {
    for (int i = 0; i < machines; ++i) shell(fmt::format("ip netns delete {}{} 2> /dev/null", name_, i));
  }
  int shell(const std::string& line) const { return std::system(fmt::format("cd '{}' && {}", folder_.path().string(), line).c_str()); }

  CommandResult on_machines(const std::string& arguments) const {
    std::string hosts = "10.77.0.1";
    for (int i = 1; i < machines; ++i) hosts += fmt::format(",10.77.0.{}", i + 1);
    const int status = shell(fmt::format(
        "unset OMPI_MCA_orte_tmpdir_base; TMPDIR=\"$PWD/0\" ip netns exec {}0 mpirun --host {} --mca plm_rsh_agent '{}/agent' "
        "--mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 '{}' {} > stdout 2> stderr",
        name_, hosts, folder_.path().string(), command_path().string(), arguments));
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("stdout"), read("stderr")};
  }

  std::string name_ = fmt::format("transformer{}-", getpid());
};

TEST_F(Networks, ProcessesOnSeveralMachinesHaveTheBitsOfThoseOnOne) {
  make(task_named("lm"));
  for (const std::string shard : {"optimizer", "weights"}) {
    const std::string command = task_command(task_named("lm")) + "--max-update 20 --shard " + shard + " --save-dir ";
    ASSERT_EQ(together(machines, command + shard + "-here").code, 0) << read("stderr");
    const CommandResult r = on_machines(command + shard + "-apart");
    ASSERT_EQ(r.code, 0) << r.err;
    const auto run_of = nlohmann::json::parse(read(last(shard + "-apart") + "/trainer.json"));
    EXPECT_EQ(run_of.at("settings").at("processes"), machines);
    expect_same_bits(shard + "-here", shard + "-apart");
  }
}

}  // namespace
}  // namespace transformer::test
