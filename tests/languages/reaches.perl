use HTTP::Tiny;
my $client = HTTP::Tiny->new;
print $client->get('http://plain.test/')->{content}, "\n";
print "not evil\n" if $client->get('http://evil.test/')->{status} == 599;
