echo 6 * 7, ' ', mb_substr('北京市', 0, 2), ' ', json_encode([3, 1]), "\n";
