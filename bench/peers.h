#pragma once
// Runs a peer's script with the Python named by the variable TRANSFORMER_PEER_PYTHON and reads its lines of JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace transformer::bench {

bool peers_enabled();
std::vector<nlohmann::json> run_peer(const std::string& script, const std::string& arguments);

}  // namespace transformer::bench
