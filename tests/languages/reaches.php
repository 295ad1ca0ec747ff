<?php
echo file_get_contents('http://plain.test/'), "\n";
if (@file_get_contents('http://evil.test/') === false) echo "not evil\n";
