#pragma once
// Runs a peer's script with the Python named by the variable TRANSFORMER_PEER_PYTHON and reads its lines of JSON.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace transformer::bench {

bool peers_enabled();
// Says how they are enabled, where they are not.
void print_peers_hint();
// Each line of JSON that the script prints; Error when it prints none.
std::vector<nlohmann::json> run_peer(const std::string& script, const std::string& arguments);

std::string peer_name(const nlohmann::json& line);  // "pytorch 2.6.0 compile"

}  // namespace transformer::bench
