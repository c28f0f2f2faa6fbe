"""What the tests stand on: a store in memory with a clock of its own, servers, builders."""
